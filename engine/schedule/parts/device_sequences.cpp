#include "engine/schedule/parts/device_sequences.hpp"

#include <optional>
#include <span>

namespace orcd::engine {

void device_sequences::begin(sequence& job) {
  if (job.begun || accelerator_.kv_pages().pages == 0) return;
  const auto copy = std::exchange(job.lease.copy, std::nullopt);
  const std::uint32_t copied = copy ? copy->positions : 0;
  job.computed -= copied;
  job.begun = true;
  under_way_ = &job;
  accelerator_.begin({slot_id{job.slot}, job.lease.pages, std::span(job.tokens).first(job.position), copy,
                      job.adapters ? std::span(*job.adapters) : std::span<const active_adapter>{}});
  under_way_ = nullptr;
  job.computed += copied;
}

void device_sequences::extend(sequence& job, std::uint32_t had) {
  if (!job.begun) return;
  under_way_ = &job;
  accelerator_.extend(slot_id{job.slot}, had, std::span(job.lease.pages).subspan(had));
  under_way_ = nullptr;
}

void device_sequences::release(sequence& job) noexcept {
  if (job.begun) accelerator_.release(slot_id{job.slot});
  job.begun = false;
  job.position = job.computed;
  job.pending = 0;
  job.drafts.forget_step();
}

}  // namespace orcd::engine
