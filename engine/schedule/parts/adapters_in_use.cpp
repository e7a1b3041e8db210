#include "engine/schedule/parts/adapters_in_use.hpp"

#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/lora/adapter.hpp"

namespace orcd::engine {

result<adapter_table::hold> adapters_in_use::take(job_request& request) {
  if (!request.inputs.empty() && !request.adapters.empty()) {
    return error(errc::invalid_request, "embeddings and ranking take no LoRA adapters");
  }
  auto held = table_.take(request.adapters);
  request.cache.salt = salt_with_adapters(request.cache.salt, request.adapters);
  return held;
}

// The order of device work keeps steps that were launched for jobs that have ended from the new values.
result<void> adapters_in_use::begin(std::uint32_t index, const lora_adapter& adapter) {
  put_.reset();
  if (accelerator_.kv_pages().pages == 0) {
    return error(errc::model_load_failed, "an accelerator without pages takes no LoRA adapters");
  }
  forget_unused();
  if (const auto free = table_.check_free(index); !free) return free;
  put next{index, adapter.digest};
  try {
    if (auto begun = accelerator_.begin_adapter(index, adapter); !begun) return begun;
  } catch (const accelerator_failure&) {
    give_up(index);
    throw;
  }
  table_.forget(index);
  put_ = std::move(next);
  return {};
}

std::optional<result<void>> adapters_in_use::go_on() {
  ORCD_ENSURE(put_.has_value());
  const std::uint32_t index = put_->index;
  try {
    if (!accelerator_.continue_adapter()) return std::nullopt;
  } catch (const accelerator_failure&) {
    give_up(index);
    throw;
  }
  put done = std::move(*put_);
  put_.reset();
  if (done.dropped) {
    accelerator_.drop_adapter(index);
    return result<void>(error(errc::not_found, "the LoRA adapter was dropped before it was there"));
  }
  table_.put(index, std::move(done.digest));
  return result<void>();
}

/// Whatever is there now, no job gets it. No job that runs has asked for more memory.
void adapters_in_use::give_up(std::uint32_t index) noexcept {
  put_.reset();
  table_.drop(index);
}

bool adapters_in_use::drop(std::uint32_t index) noexcept {
  table_.drop(index);
  forget_unused();
  const bool on_its_way = put_ && put_->index == index;
  if (on_its_way) put_->dropped = true;
  return table_.is_free(index) && !on_its_way;
}

void adapters_in_use::forget_unused() noexcept {
  while (const auto index = table_.take_unused()) accelerator_.drop_adapter(*index);
}

}  // namespace orcd::engine
