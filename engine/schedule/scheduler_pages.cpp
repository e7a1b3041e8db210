// How the scheduler uses the KV cache: a job's pages before its first step, pages shared while it runs, and
// their return. How they become more is in scheduler_growth.cpp.
#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

std::function<void(std::span<const kv_page>)> scheduler::clear_function() {
  return [this](std::span<const kv_page> freed) { accelerator_.clear(freed); };
}

std::uint32_t scheduler::take_over_pages(page_ledger ledger) {
  ORCD_ENSURE(idle() && accelerator_.kv_pages().pages > 0);
  is_heir_ = true;
  blocked_job_ = 0;
  cache_ = std::make_unique<kv_cache>(accelerator_.kv_pages(), config_.cache, clear_function(), ledger);
  return cache_->counts().adopted;
}

void scheduler::open_pages() {
  if (cache_) cache_->open_pages();
}

void scheduler::leave_pages() {
  ORCD_ENSURE(idle());
  accelerator_.settle();
  blocked_job_ = 0;
  if (is_heir_) cache_.reset();
}

bool scheduler::waits_for_pages() const noexcept {
  return starved_;
}

// Waiting jobs first in, first out; each takes the lowest free slot.
void scheduler::admit(steady_time now) {
  starved_ = false;
  pages_lack_ = false;
  feed_pooled();
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot]) continue;
    auto place = next_in_turn(now);
    while (place && cache_ && !cache_->can_hold(waiting_[*place]->positions_max())) {
      refuse(*place, now);
      place = next_in_turn(now);
    }
    if (!place) return;
    pages_lack_ = !admit_one(slot, *place, now);
    if (pages_lack_) return;
  }
}

/// The waiting job that may have a slot next.
std::optional<std::size_t> scheduler::next_in_turn(steady_time now) const {
  constexpr std::chrono::seconds patience{10};
  const bool one_is_alone = running_ > 0 && std::any_of(slots_.begin(), slots_.end(), [](const auto& slot) {
                              return slot && slot->request.alone;
                            });
  if (one_is_alone) return std::nullopt;
  std::optional<std::size_t> alone;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (!waiting_[i]->request.alone) return i;
    if (!alone) alone = i;
    // Whoever runs now may finish.
    if (now - waiting_[i]->queued_at > patience) break;
  }
  return running_ == 0 ? alone : std::nullopt;
}

/// False where there are not enough pages for it.
bool scheduler::admit_one(std::uint32_t slot, std::size_t place, steady_time now) {
  if (!reserve(*waiting_[place])) return false;
  slots_[slot] = std::move(waiting_[place]);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(place));
  ++running_;
  slots_[slot]->start(slot, ++admissions_, now);
  begin(*slots_[slot]);
  end_if_over(*slots_[slot], now);
  return true;
}

/// Ends a job that needs no step: its prompt is known and all that it asks for, or the output that it came
/// with was all of it.
void scheduler::end_if_over(sequence& job, steady_time now) {
  std::optional<job_outcome> end;
  try {
    end = job.replay_produced();
  } catch (const std::bad_alloc&) {
    end = job_outcome::of(out_of_memory());
  }
  if (job.ends_with_prompt(job.position)) end = job_outcome::of(finish_reason::length);
  if (end) finish(job.slot, *end, now);
}

// Callers have checked the length against the context, and a job of that length fits an empty cache: no
// request leads here.
void scheduler::refuse(std::size_t place, steady_time now) {
  const auto job = std::move(waiting_[place]);
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(place));
  job->finish(job_outcome::of(error(errc::vram_oom, "the job needs " + std::to_string(job->positions_max()) +
                                                        " positions, more than the KV cache has")),
              now);
}

bool scheduler::reserve(sequence& job) {
  if (!cache_) return true;
  // What running jobs are expected to need changes slowly while they go on; both numbers only grow.
  constexpr std::uint64_t steps_between = 32;
  const auto moment = [&] { return cache_->changes() + steps_ / steps_between; };
  if (blocked_job_ == job.key && blocked_at_ == moment()) {
    starved_ = cache_->has_closed_pages();
    return false;
  }
  auto lease = cache_->reserve(job.request.cache, job.sharable_prompt(), positions_at_first(job),
                               pages_to_leave(job), job.started);
  if (!lease) {
    ORCD_ENSURE(running_ > 0 || cache_->has_closed_pages());
    starved_ = cache_->has_closed_pages();
    blocked_job_ = job.key;
    blocked_at_ = moment();
    return false;
  }
  job.lease = std::move(*lease);
  job.lease.pages.reserve(cache_->pages_for(job.positions_max()));  // growing allocates nothing
  job.computed = job.lease.held;
  if (job.lease.counts) job.cached = std::min(job.computed, job.prompt_tokens - 1);
  job.position = job.computed;
  return true;
}

/// Must be the first call after reserve(), so that the page to copy from still holds what it held then. If
/// the accelerator's begin() throws, the job has to end: the copied positions are missing, and the page to
/// copy from may soon be another job's.
void scheduler::begin(sequence& job) {
  if (!cache_ || job.begun) return;
  const auto copy = std::exchange(job.lease.copy, std::nullopt);
  const std::uint32_t copied = copy ? copy->positions : 0;
  job.computed -= copied;
  job.begun = true;
  beginning_ = &job;
  accelerator_.begin({slot_id{job.slot}, job.lease.pages, std::span(job.tokens).first(job.position), copy,
                      job.adapters ? std::span(*job.adapters) : std::span<const active_adapter>{}});
  beginning_ = nullptr;
  job.computed += copied;
}

/// Takes over pages that others have published since the job got its own; no step of the job may be in
/// progress.
void scheduler::catch_up(sequence& job) {
  if (!cache_ || job.position != job.computed) return;
  const std::uint32_t computed = cache_->catch_up(job.lease, job.request.cache, job.sharable_prompt(),
                                                  job.computed, [&] { release(job); });
  if (job.lease.counts) job.cached = std::min(job.cached + computed - job.computed, job.prompt_tokens - 1);
  job.computed = computed;
  job.position = computed;
}

/// Whether a job that was admitted earlier is computing the page that this one would compute next. Jobs wait
/// only for earlier ones, so that they cannot wait for each other.
bool scheduler::waits_for_page(const sequence& job) const noexcept {
  if (!cache_ || job.position != job.computed) return false;
  const auto sharable = static_cast<std::uint32_t>(job.sharable_prompt().size());
  if (!cache_->wants_page(job.lease, job.request.cache, sharable, job.computed)) return false;
  const std::uint32_t end = job.computed + cache_->page_positions();
  return std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
    if (!slot || slot->admission >= job.admission || !slot->request.cache.enabled) return false;
    const sequence& other = *slot;
    if (other.request.cache.salt != job.request.cache.salt) return false;
    if (other.computed >= end || end > other.prompt_tokens) return false;
    return std::equal(job.tokens.begin(), job.tokens.begin() + end, other.tokens.begin());
  });
}

void scheduler::note_computed(sequence& job, std::uint32_t end) {
  // The states that a pooled sequence has gathered are lost with a failed step: it begins again from its
  // first token, so that its progress is not recorded.
  if (!cache_ || job.pool) return;
  job.computed = std::max(job.computed, end);
  cache_->publish(job.lease, job.request.cache, job.tokens, job.computed);
}

void scheduler::give_back_pages(sequence& job) {
  if (!cache_) return;
  cache_->finish(std::exchange(job.lease, {}), job.request.cache, job.tokens, job.computed);
}

}  // namespace orcd::engine
