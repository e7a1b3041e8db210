// Running jobs get pages as they grow, one at a time before a step that needs it. Where there is none left
// that nobody uses, the job that came last is set back: it leaves its slot and its pages, waits before all
// that came after it, and is computed again from its prompt and what it has told. The oldest running job is
// never set back for another, and a job of its length fits an empty cache, so that it always goes on.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/base/prompt_tokens.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

/// Positions for which a job gets pages with its slot: those of what is known, and of what may be launched
/// before the next page is asked for.
std::uint32_t scheduler::positions_at_first(const sequence& job) const noexcept {
  const std::uint32_t drafts = job.drafter ? std::min(drafts_max, accelerator_.draft_tokens()) : 0;
  const std::uint64_t wanted = job.tokens.size() + std::uint64_t{accelerator_.launch_depth()} + drafts;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(job.positions_max(), wanted));
}

/// How a job with these pages is expected to grow. Its last token may be the first of a page that it has yet
/// to get. `wait`: steps until its prompt is computed.
job_growth scheduler::growth_of(const sequence& job, std::uint32_t own_pages, std::size_t pages,
                                std::uint32_t wait) const {
  const std::uint32_t size = cache_->page_positions();
  const std::uint64_t has = std::uint64_t{pages} * size;
  const auto filled =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({job.tokens.size(), job.positions_max(), has}));
  const std::uint64_t room = has - filled;
  const std::uint32_t further = forecast_.further(job.positions_max() - filled, room);
  return {own_pages, static_cast<std::uint32_t>(room / size), static_cast<std::uint32_t>(room % size),
          further > room ? cache_->pages_for(static_cast<std::uint32_t>(further - room)) : 0, wait + further};
}

/// Pages that the running jobs and the next one are expected to need after it is admitted. Where nobody runs
/// it may have all of them. Prompts share the steps' columns: a job may end no earlier than when all of them
/// are computed, though it asked for one token, and others grow as long.
std::uint32_t scheduler::pages_to_leave(const sequence& next) {
  if (running_ == 0) return 0;
  std::uint64_t prompts = next.tokens.size();
  for (const auto& job : slots_) prompts += job && job->missing() > 1 ? job->missing() : 0;
  const std::uint32_t of_step = prompt_tokens_beside(1, running_ + 1, chunk_tokens_);
  const auto wait = static_cast<std::uint32_t>(prompts / of_step + 1);
  growing_.clear();
  // What it will share is not known yet.
  growing_.push_back(growth_of(next, 0, cache_->pages_for(positions_at_first(next)), wait));
  for (const auto& job : slots_) {
    if (!job) continue;
    growing_.push_back(growth_of(*job, kv_cache::own_pages(job->lease), job->lease.pages.size(),
                                 job->missing() > 1 ? wait : 0));
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(
      further_pages_at_peak(growing_, cache_->page_positions()), accelerator_.kv_pages().pages));
}

/// Before a step is planned, so that no part of it belongs to a job that is set back.
void scheduler::grow() {
  if (!cache_) return;
  while (sequence* job = next_to_grow()) {
    if (extend(*job)) continue;
    note_want();
    set_back(latest_running().slot);
  }
  if (config_.drafts.enabled && accelerator_.draft_tokens() > 0) grow_for_drafts();
}

/// The oldest job that lacks a page for its next step.
sequence* scheduler::next_to_grow() const noexcept {
  sequence* oldest = nullptr;
  for (const auto& job : slots_) {
    if (!job || cache_->pages_for(job->positions_next()) <= job->lease.pages.size()) continue;
    if (oldest == nullptr || job->arrival < oldest->arrival) oldest = job.get();
  }
  return oldest;
}

sequence& scheduler::latest_running() const noexcept {
  sequence* latest = nullptr;
  for (const auto& job : slots_) {
    if (job && (latest == nullptr || job->arrival > latest->arrival)) latest = job.get();
  }
  ORCD_ENSURE(latest != nullptr);
  return *latest;
}

/// That there are too few pages says how much of what they asked for running jobs use.
void scheduler::note_want() noexcept {
  std::uint64_t tokens = 0;
  std::uint64_t most = 0;
  for (const auto& job : slots_) {
    if (!job || job->pool) continue;
    tokens += job->tokens_out();
    most += job->request.max_tokens;
  }
  forecast_.ran_out(tokens, most);
}

/// One page more, unless all are in use. If the accelerator fails, the job has to end: its table is not what
/// its lease is.
bool scheduler::extend(sequence& job) {
  const auto have = static_cast<std::uint32_t>(job.lease.pages.size());
  if (!cache_->extend(job.lease)) return false;
  if (!job.begun) return true;
  beginning_ = &job;
  accelerator_.extend(slot_id{job.slot}, have, std::span(job.lease.pages).subspan(have));
  beginning_ = nullptr;
  return true;
}

/// Drafts are worth a page that nobody uses, but no other job's turn.
void scheduler::grow_for_drafts() {
  for (const auto& job : slots_) {
    if (!job || !job->drafter || !job->can_decode()) continue;
    const std::uint32_t wanted = std::min(job->positions_max(), job->position + 1 + drafts_max);
    while (cache_->pages_for(wanted) > job->lease.pages.size() && extend(*job)) {
    }
  }
}

/// Drafts behind its next token that a job has pages for.
std::uint32_t scheduler::room_for_drafts(const sequence& job) const noexcept {
  if (!cache_) return std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t positions = job.lease.pages.size() * std::uint64_t{cache_->page_positions()};
  const std::uint64_t used = std::uint64_t{job.position} + 1;
  return static_cast<std::uint32_t>(positions - std::min(positions, used));
}

// Steps that were launched for it are collected and mean nothing, as those of a job that has ended. Whatever
// was not told yet is drawn again with the same draws.
void scheduler::set_back(std::uint32_t slot) {
  const auto came_before = [](std::uint64_t arrival, const auto& other) { return arrival < other->arrival; };
  const auto behind = std::upper_bound(waiting_.begin(), waiting_.end(), slots_[slot]->arrival, came_before);
  const auto place = waiting_.emplace(behind, nullptr);
  *place = std::move(slots_[slot]);
  sequence& job = **place;
  --running_;
  ++set_backs_;
  pages_lack_ = true;
  release(job);
  job.leave_slot();
  const std::uint32_t computed = std::exchange(job.computed, 0);
  job.position = 0;
  cache_->set_back(std::exchange(job.lease, {}), job.request.cache, job.tokens, computed);
  if (config_.on_set_back) config_.on_set_back(job.request.job_id, job.tokens_out());
}

}  // namespace orcd::engine
