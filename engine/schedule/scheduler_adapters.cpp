// How the scheduler keeps the LoRA adapters of its jobs.
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

result<void> scheduler::put_adapter(std::uint32_t index, const lora_adapter& adapter) {
  if (auto begun = begin_adapter(index, adapter); !begun) return begun;
  std::optional<result<void>> done;
  while (!done) done = continue_adapter();
  return *done;
}

// The order of device work keeps steps that were launched for jobs that have ended from the new values.
result<void> scheduler::begin_adapter(std::uint32_t index, const lora_adapter& adapter) {
  put_.reset();
  if (failure_) return *failure_;
  if (accelerator_.kv_pages().pages == 0) {
    return error(errc::model_load_failed, "an accelerator without pages takes no LoRA adapters");
  }
  forget_unused_adapters();
  if (const auto free = adapters_.check_free(index); !free) return free;
  adapter_put put{index, adapter.digest};
  try {
    if (auto begun = accelerator_.begin_adapter(index, adapter); !begun) return begun;
  } catch (const accelerator_failure& failure) {
    return failed_put(index, failure);
  }
  adapters_.forget(index);
  put_ = std::move(put);
  return {};
}

std::optional<result<void>> scheduler::continue_adapter() {
  ORCD_ENSURE(put_.has_value());
  if (failure_) return result<void>(*failure_);
  const std::uint32_t index = put_->index;
  try {
    if (!accelerator_.continue_adapter()) return std::nullopt;
  } catch (const accelerator_failure& failure) {
    return failed_put(index, failure);
  }
  adapter_put put = std::move(*put_);
  put_.reset();
  if (put.dropped) {
    accelerator_.drop_adapter(index);
    return result<void>(error(errc::not_found, "the LoRA adapter was dropped before it was there"));
  }
  adapters_.put(index, std::move(put.digest));
  return result<void>();
}

/// Whatever is there now, nobody gets it. No job that runs has asked for more memory.
result<void> scheduler::failed_put(std::uint32_t index, const accelerator_failure& failure) {
  put_.reset();
  adapters_.drop(index);
  if (failure.code != errc::vram_oom) handle_failure(failure);
  return error(failure.code, failure.what());
}

bool scheduler::drop_adapter(std::uint32_t index) noexcept {
  adapters_.drop(index);
  forget_unused_adapters();
  const bool on_its_way = put_ && put_->index == index;
  if (on_its_way) put_->dropped = true;
  return adapters_.is_free(index) && !on_its_way;
}

void scheduler::forget_unused_adapters() noexcept {
  while (const auto index = adapters_.take_unused()) accelerator_.drop_adapter(*index);
}

/// Also makes the adapters part of the salt.
result<adapter_table::hold> scheduler::hold_adapters(job_request& request) {
  if (!request.inputs.empty() && !request.adapters.empty()) {
    return error(errc::invalid_request, "embeddings and ranking take no LoRA adapters");
  }
  auto held = adapters_.take(request.adapters);
  request.cache.salt = salt_with_adapters(request.cache.salt, request.adapters);
  return held;
}

}  // namespace orcd::engine
