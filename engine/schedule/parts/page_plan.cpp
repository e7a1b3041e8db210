#include "engine/schedule/parts/page_plan.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <span>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/page_keys.hpp"

namespace orcd::engine {

namespace {

page_clearing clear_function(accelerator& target) {
  return [&target](std::uint32_t group, std::span<const kv_page> freed) { target.clear(group, freed); };
}

}  // namespace

void page_plan::make_cache() {
  const kv_geometry pages = accelerator_.kv_pages();
  if (!cache_ && pages.pages > 0)
    cache_ = std::make_unique<kv_cache>(pages, config_, clear_function(accelerator_));
}

std::uint32_t page_plan::take_over(page_ledger ledger) {
  ORCD_ENSURE(accelerator_.kv_pages().pages > 0);
  shares_pages_ = true;
  blocked_job_ = 0;
  cache_ = std::make_unique<kv_cache>(accelerator_.kv_pages(), config_, clear_function(accelerator_), ledger);
  return cache_->counts().adopted;
}

void page_plan::open() {
  if (cache_) cache_->open_pages();
}

void page_plan::leave() {
  accelerator_.wait_idle();
  blocked_job_ = 0;
  if (shares_pages_) cache_.reset();
}

bool page_plan::can_hold(const sequence& job) const noexcept {
  return !cache_ || cache_->can_hold(job.positions_max());
}

std::uint32_t page_plan::positions_at_first(const sequence& job) const noexcept {
  const std::uint32_t drafts =
      job.drafts.has_source() ? std::min(drafts_max, accelerator_.draft_tokens()) : 0;
  const std::uint64_t wanted = job.tokens.size() + std::uint64_t{accelerator_.launch_depth()} + drafts;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(job.positions_max(), wanted));
}

/// What running jobs are expected to need changes slowly while they go on; both numbers only grow.
std::uint64_t page_plan::moment(std::uint64_t steps) const noexcept {
  constexpr std::uint64_t steps_between = 32;
  return cache_->changes() + steps / steps_between;
}

void page_plan::note_lack() noexcept {
  lacks_ = true;
  awaits_opening_ = cache_->has_closed_pages();
}

bool page_plan::is_blocked(const sequence& job, std::uint64_t steps) noexcept {
  if (!cache_ || blocked_job_ != job.key || blocked_at_ != moment(steps)) return false;
  note_lack();
  return true;
}

bool page_plan::reserve(sequence& job, std::uint32_t leave, std::uint64_t steps) {
  if (!cache_) return true;
  auto lease = cache_->reserve(job.request.cache, job.sharable_prompt(), positions_at_first(job), leave,
                               job.telling.started());
  if (!lease) {
    note_lack();
    blocked_job_ = job.key;
    blocked_at_ = moment(steps);
    return false;
  }
  job.lease = std::move(*lease);
  // Growing allocates nothing.
  job.lease.pages.reserve(cache_->pages_for(job.positions_max()));
  for (std::size_t i = 0; i < job.lease.windows.groups.size(); ++i) {
    const std::uint32_t most = cache_->windows()->pages_of(static_cast<std::uint32_t>(i + 1)).size();
    job.lease.windows.groups[i].pages.reserve(std::min(most, cache_->pages_for(job.positions_max())));
  }
  job.computed = job.lease.held;
  if (job.lease.counts) job.cached = std::min(job.computed, job.prompt_tokens - 1);
  job.position = job.computed;
  return true;
}

bool page_plan::extend(sequence& job) {
  const auto had = static_cast<std::uint32_t>(job.lease.pages.size());
  if (!cache_->extend(job.lease)) return false;
  device_.extend(job, 0, had);
  return true;
}

void page_plan::reach(sequence& job, std::uint32_t end) {
  if (!cache_ || cache_->windows() == nullptr) return;
  cache_->windows()->reach(job.lease.windows, end, [&](std::uint32_t group, std::uint32_t have) {
    device_.extend(job, group, have);
  });
}

void page_plan::set_back(sequence& job) {
  if (!cache_ || cache_->windows() == nullptr) return;
  cache_->windows()->set_back(job.lease.windows, job.computed, job.lease.written);
}

std::span<const state_copy> page_plan::wanted_states(sequence& job, std::uint32_t end) {
  if (!cache_ || cache_->windows() == nullptr || !cache_->keeps(job.request.cache, end)) return {};
  return cache_->windows()->wanted_states(job.lease.windows, job.position, end);
}

void page_plan::keep_state(sequence& job) noexcept {
  try {
    keep_last_state(job);
  } catch (const std::bad_alloc&) {
    // Then others compute what it would have spared them.
  }
}

void page_plan::keep_last_state(sequence& job) {
  if (!cache_ || !job.begun || cache_->windows() == nullptr || !cache_->windows()->has_states()) return;
  const std::uint32_t position = job.computed / state_positions * state_positions;
  if (position <= job.lease.held || !cache_->keeps(job.request.cache, position)) return;
  const state_copy* const wanted = cache_->windows()->want_state(job.lease.windows, position);
  if (wanted == nullptr) return;
  if (!accelerator_.keep_state(slot_id{job.slot}, *wanted))
    cache_->windows()->drop_last_state(job.lease.windows);
}

std::uint32_t page_plan::room_for_drafts(const sequence& job) const noexcept {
  if (!cache_) return std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t positions = job.lease.pages.size() * std::uint64_t{cache_->page_positions()};
  const std::uint64_t used = std::uint64_t{job.position} + 1;
  return static_cast<std::uint32_t>(positions - std::min(positions, used));
}

void page_plan::catch_up(sequence& job) {
  if (!cache_ || job.position != job.computed) return;
  const std::uint32_t computed = cache_->catch_up(job.lease, job.request.cache, job.sharable_prompt(),
                                                  job.computed, [&] { device_.release(job); });
  if (job.lease.counts) job.cached = std::min(job.cached + computed - job.computed, job.prompt_tokens - 1);
  job.computed = computed;
  job.position = computed;
}

bool page_plan::waits_for_page(const sequence& job, const slot_table& running) const noexcept {
  if (!cache_ || job.position != job.computed) return false;
  const auto sharable = static_cast<std::uint32_t>(job.sharable_prompt().size());
  if (!cache_->wants_page(job.lease, job.request.cache, sharable, job.computed)) return false;
  const std::uint32_t end = job.computed + cache_->page_positions();
  return std::any_of(running.jobs().begin(), running.jobs().end(), [&](const auto& slot) {
    if (!slot || slot->admission >= job.admission || !slot->request.cache.enabled) return false;
    const sequence& other = *slot;
    if (other.request.cache.salt != job.request.cache.salt) return false;
    if (other.computed >= end || end > other.prompt_tokens) return false;
    if (!have_same_media(other.request.cache, job.request.cache, end)) return false;
    return std::equal(job.tokens.begin(), job.tokens.begin() + end, other.tokens.begin());
  });
}

void page_plan::note_computed(sequence& job, std::uint32_t end) {
  // The states that a pooled sequence has gathered are lost with a failed step: it begins again from its
  // first token, so that its progress is not recorded.
  if (!cache_ || job.pool) return;
  job.computed = std::max(job.computed, end);
  cache_->publish(job.lease, job.request.cache, job.tokens, job.computed);
  if (cache_->windows() != nullptr) cache_->windows()->trim(job.lease.windows, job.computed);
}

void page_plan::give_back(sequence& job) {
  if (!cache_) return;
  cache_->finish(std::exchange(job.lease, {}), job.request.cache, job.tokens, job.computed);
}

void page_plan::preempt(sequence& job) {
  ++preemptions_;
  lacks_ = true;
  const std::uint32_t computed = std::exchange(job.computed, 0);
  job.position = 0;
  cache_->preempt(std::exchange(job.lease, {}), job.request.cache, job.tokens, computed);
}

}  // namespace orcd::engine
