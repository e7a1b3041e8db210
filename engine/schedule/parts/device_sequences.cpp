#include "engine/schedule/parts/device_sequences.hpp"

#include <array>
#include <optional>
#include <span>
#include <utility>

namespace orcd::engine {

void device_sequences::begin(sequence& job) {
  if (job.begun || accelerator_.kv_pages().pages == 0) return;
  const auto copy = std::exchange(job.lease.copy, std::nullopt);
  const std::uint32_t copied = copy ? copy->positions : 0;
  std::array<group_pages, further_groups_max> further;
  auto& windows = job.lease.windows.groups;
  for (std::size_t i = 0; i < windows.size(); ++i)
    further.at(i) = {windows[i].first, windows[i].pages, std::exchange(windows[i].copy, std::nullopt)};
  job.computed -= copied;
  job.begun = true;
  under_way_ = &job;
  accelerator_.begin({slot_id{job.slot}, job.lease.pages, std::span(job.tokens).first(job.position), copy,
                      job.adapters ? std::span(*job.adapters) : std::span<const active_adapter>{},
                      std::span(further).first(windows.size())});
  under_way_ = nullptr;
  job.computed += copied;
}

void device_sequences::extend(sequence& job, std::uint32_t group, std::uint32_t had) {
  if (!job.begun) return;
  under_way_ = &job;
  const auto pages =
      std::span<const kv_page>(group == 0 ? job.lease.pages : job.lease.windows.groups[group - 1].pages);
  const std::uint32_t first = group == 0 ? 0 : job.lease.windows.groups[group - 1].first;
  accelerator_.extend(slot_id{job.slot}, group, had, pages.subspan(had - first));
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
