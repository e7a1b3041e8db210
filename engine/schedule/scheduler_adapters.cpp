// How the scheduler keeps the LoRA adapters of its jobs.
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

// The order of device work keeps steps that were launched for jobs that have ended from the new values.
result<void> scheduler::put_adapter(std::uint32_t index, const lora_adapter& adapter) {
  if (failure_) return *failure_;
  if (accelerator_.kv_pages().pages == 0) {
    return error(errc::model_load_failed, "an accelerator without pages takes no LoRA adapters");
  }
  forget_unused_adapters();
  if (const auto free = adapters_.check_free(index); !free) return free;
  std::string digest = adapter.digest;
  try {
    const auto done = accelerator_.put_adapter(index, adapter);
    if (done) adapters_.put(index, std::move(digest));
    return done;
  } catch (const accelerator_failure& failure) {
    adapters_.drop(index);  // whatever is there now
    // No job that runs has asked for more memory.
    if (failure.code != errc::vram_oom) handle_failure(failure);
    return error(failure.code, failure.what());
  }
}

bool scheduler::drop_adapter(std::uint32_t index) noexcept {
  adapters_.drop(index);
  forget_unused_adapters();
  return adapters_.is_free(index);
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
