#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/pooled_job.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

scheduler::scheduler(accelerator& target, scheduler_config config)
    : accelerator_(target),
      config_(std::move(config)),
      chunk_tokens_(target.chunk_tokens()),
      slots_(config_.slots) {
  ORCD_ENSURE(config_.slots > 0 && chunk_tokens_ > 0);
  if (!config_.now) config_.now = [] { return std::chrono::steady_clock::now(); };
  std::sort(config_.end_of_generation.begin(), config_.end_of_generation.end());
  parts_.reserve(config_.slots);
  sampled_.reserve(config_.slots + accelerator_.draft_tokens());
  offers_.resize(config_.slots);
  growing_.reserve(config_.slots + std::size_t{1});
  if (!config_.drafts.source) config_.drafts.source = make_lookup_drafts;
}

scheduler::~scheduler() = default;

void scheduler::submit(job_request request, std::shared_ptr<event_sink> sink) {
  ORCD_ENSURE(waiting_.size() + pooled_.size() + running_ < jobs_max);
  chunk_tokens_ = accelerator_.chunk_tokens();
  const bool pooled = !request.inputs.empty();
  const auto produced = check_produced(request, std::numeric_limits<std::uint32_t>::max());
  if (!produced) request.produced.clear();
  std::optional<error> refusal = failure_   ? failure_
                                 : produced ? std::nullopt
                                            : std::optional(produced.error());
  auto adapters = hold_adapters(request);
  if (!refusal && !adapters) refusal = adapters.error();
  if (pooled && refusal) {
    std::make_shared<pooled_job>(std::move(request), std::move(sink))->end(*refusal, 0.0);
    return;
  }
  if (const kv_geometry pages = accelerator_.kv_pages(); !cache_ && pages.pages > 0) {
    cache_ = std::make_unique<kv_cache>(pages, config_.cache, clear_function());
  }
  if (pooled) {
    pooled_.push_back(std::make_shared<pooled_job>(std::move(request), std::move(sink)));
    return;
  }
  auto job = std::make_unique<sequence>(std::move(request), std::move(sink));
  if (refusal) {
    job->finish(job_outcome::of(*refusal), config_.now());
    return;
  }
  if (config_.drafts.enabled && accelerator_.draft_tokens() > 0)
    job->drafter = config_.drafts.source(job->request, job->prompt_tokens);
  job->adapters = std::move(*adapters);
  job->queued_at = config_.now();
  job->arrival = ++arrivals_;
  waiting_.push_back(std::move(job));
}

void scheduler::cancel(const std::string& job_id, cancel_reason reason) {
  const auto has_id = [&](const auto& job) { return job && job->request.job_id == job_id; };
  const steady_time now = config_.now();
  const auto why = [&](const sequence& job) {
    return job_outcome::of(reason, ms_between(job.request.received_at, now));
  };
  end_pooled([&](const pooled_job& job) { return job.id() == job_id; }, reason, now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (has_id(slots_[slot])) finish(slot, why(*slots_[slot]), now);
  }
  while (true) {
    const auto it = std::find_if(waiting_.begin(), waiting_.end(), has_id);
    if (it == waiting_.end()) return;
    const job_outcome how = why(**it);
    const auto job = std::move(*it);
    waiting_.erase(it);
    job->finish(how, now);
  }
}

void scheduler::cancel_all(cancel_reason reason) {
  const steady_time now = config_.now();
  end_pooled([](const pooled_job&) { return true; }, reason, now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot]) continue;
    finish(slot, job_outcome::of(reason, ms_between(slots_[slot]->request.received_at, now)), now);
  }
  end_waiting(
      [&](const sequence& job) { return job_outcome::of(reason, ms_between(job.request.received_at, now)); },
      now);
}

template <class Why>
void scheduler::end_waiting(const Why& why, steady_time now) {
  while (!waiting_.empty()) {
    const job_outcome how = why(*waiting_.front());
    const auto job = std::move(waiting_.front());
    waiting_.pop_front();
    job->finish(how, now);
  }
}

void scheduler::interrupt_if_alone(std::string_view job_id) noexcept {
  if (alone_.load(std::memory_order_acquire) == job_key(job_id)) interrupt();
}

// The interrupt flag is cleared after the steps, not before them: an interrupt() between two calls must stop
// the next step. `alone_` is cleared as well, so that an interrupt_if_alone() that comes too late stops
// nothing.
bool scheduler::run_step() {
  const steady_time now = config_.now();
  forget_unused_adapters();
  expire(now);
  if (!attempt([&] { admit(now); })) return !idle();
  // A job that ended when it got its slot has left it to one that waits.
  if (running_ == 0 && launched_.empty()) return !idle() && !waits_for_pages();
  struct publish {
    scheduler& self;
    ~publish() {
      self.alone_.store(0, std::memory_order_release);
      self.interrupt_.store(false, std::memory_order_relaxed);
    }
  } guard{*this};
  attempt([&] {
    launch_steps();
    collect_step();
  });
  return !idle();
}

/// The one place that catches failures of the accelerator and lack of host memory; false after one. An
/// allocation that concerns one job alone is caught closer to that job and ends only it.
template <class Work>
bool scheduler::attempt(Work&& work) {
  try {
    work();
    return true;
  } catch (const accelerator_failure& failure) {
    handle_failure(failure);
  } catch (const std::bad_alloc&) {
    lose(out_of_memory());
  }
  return false;
}

std::uint64_t scheduler::kv_positions() const noexcept {
  std::uint64_t total = 0;
  for (const auto& job : slots_) total += job ? job->position : 0;
  return total;
}

void scheduler::expire(steady_time now) {
  end_pooled([&](const pooled_job& job) { return job.overdue(now); }, cancel_reason::timeout, now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& job = slots_[slot];
    if (!job || !job->overdue(now)) continue;
    finish(slot, job_outcome::of(cancel_reason::timeout, ms_between(job->request.received_at, now)), now);
  }
  std::erase_if(waiting_, [&](const auto& job) {
    if (!job->overdue(now)) return false;
    job->finish(job_outcome::of(cancel_reason::timeout, ms_between(job->request.received_at, now)), now);
    return true;
  });
}

// The step is recorded before it is launched: if launch() throws, forget_launched() has to know its sequences
// too.
void scheduler::launch_steps() {
  while (launched_.size() < accelerator_.launch_depth() && plan()) {
    launched_.push_back(std::move(spare_));
    alone_.store(only_key(), std::memory_order_release);
    accelerator_.launch(parts_, interrupt_);
    if (cache_) cache_->launched();
  }
  alone_.store(only_key(), std::memory_order_release);
}

std::uint64_t scheduler::only_key() const noexcept {
  std::uint64_t key = 0;
  for (const auto& step : launched_) {
    for (const auto& part : step) {
      if (key != 0 && part.key != key) return 0;
      key = part.key;
    }
  }
  return key;
}

void scheduler::collect_step() {
  if (launched_.empty()) return;
  sampled_.clear();
  if (!accelerator_.collect(interrupt_, sampled_)) {
    forget_launched();
    return;
  }
  ++steps_;
  if (cache_) cache_->collected();
  launched_step step = std::move(launched_.front());
  launched_.erase(launched_.begin());
  accept_results(step, config_.now());
  spare_ = std::move(step);
}

void scheduler::accept_results(const launched_step& step, steady_time now) {
  std::size_t next = 0;
  for (const auto& part : step) {
    sequence* job = job_of(part);
    if (job != nullptr) note_computed(*job, part.end - part.drafts());
    ORCD_ENSURE(next + part.samples <= sampled_.size());
    const auto results = std::span<const sampled_token>(sampled_).subspan(next, part.samples);
    for (const sampled_token& result : results) ORCD_ENSURE(result.slot == slot_id{part.slot});
    next += part.samples;
    if (job == nullptr) continue;
    job->tell_progress(part.end, now);
    try {
      if (part.scores) job->tell_scored(part.end, results.front());
      if (part.samples > 1) {
        accept_drafts(part, results, now);
      } else if (part.samples == 1 && !part.scores) {
        --job->pending;
        accept_result(*job, results.front(), now);
      } else if (job->ends_with_prompt(part.end)) {
        finish(part.slot, job_outcome::of(finish_reason::length), now);
      }
    } catch (const std::bad_alloc&) {
      if (job_of(part) == nullptr) throw;
      finish(part.slot, job_outcome::of(out_of_memory()), now);
    }
  }
  ORCD_ENSURE(next == sampled_.size());
}

/// The job of a launched part; null when it has ended.
sequence* scheduler::job_of(const launched_part& part) noexcept {
  const auto& job = slots_[part.slot];
  return job && job->admission == part.admission ? job.get() : nullptr;
}

void scheduler::accept_result(sequence& job, const sampled_token& chosen, steady_time now) {
  if (!job.pool) return accept_token(job, chosen, now);
  ORCD_ENSURE(chosen.pooled != nullptr);
  job.pooled = chosen.pooled;
  if (!std::all_of(job.pooled->begin(), job.pooled->end(), [](float v) { return std::isfinite(v); })) {
    return finish(job.slot, job_outcome::of(error(errc::internal, "the model's states are not all finite")),
                  now);
  }
  finish(job.slot, job_outcome::of(finish_reason::stop), now);
}

// The end-of-generation token itself is neither sent nor counted.
void scheduler::accept_token(sequence& job, const sampled_token& chosen, steady_time now) {
  const token_id token = chosen.token;
  job.draws_ahead.erase(job.draws_ahead.begin());
  if (token < 0) {
    finish(job.slot, job_outcome::of(job.no_token()), now);
    return;
  }
  const auto& ends = config_.end_of_generation;
  if (job.stops_at_end() && std::binary_search(ends.begin(), ends.end(), token)) {
    job.tell_end(chosen);
    finish(job.slot, job_outcome::of(finish_reason::stop), now);
    return;
  }
  const bool stops = job.stops_at(token);
  if (stops && !job.request.keep_stop_token) {
    finish(job.slot, job_outcome::of(finish_reason::stop), now);
    return;
  }
  token_constraint* constraint = job.request.constraint.get();
  if (constraint != nullptr && !constraint->accept(token)) {
    finish(job.slot,
           job_outcome::of(error(errc::internal, "a token was chosen that the grammar does not allow")), now);
    return;
  }
  job.append(chosen, now);
  if (stops || (constraint != nullptr && constraint->complete())) {
    finish(job.slot, job_outcome::of(finish_reason::stop), now);
    return;
  }
  if (constraint != nullptr && constraint->spent()) job.request.constraint.reset();
  if (job.tokens_out() == job.request.max_tokens)
    finish(job.slot, job_outcome::of(finish_reason::length), now);
}

// Out of device memory ends one job and has the others computed again; a job ends each time, so that this
// cannot go on for ever. Any other failure ends all jobs.
void scheduler::handle_failure(const accelerator_failure& failure) {
  const error what(failure.code, failure.what());
  const steady_time now = config_.now();
  if (failure.code == errc::vram_oom) {
    short_at_ = admissions_;
    if (config_.on_degraded) config_.on_degraded(what);
    if (const sequence* victim = out_of_memory_victim()) finish(victim->slot, job_outcome::of(what), now);
    forget_launched();
    return;
  }
  lose(what);
}

void scheduler::lose(const error& what) {
  const steady_time now = config_.now();
  failure_ = what;
  beginning_ = nullptr;
  launched_.clear();
  if (cache_) cache_->forgot_launched();
  if (config_.on_lost) config_.on_lost(what);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot]) finish(slot, job_outcome::of(what), now);
  }
  end_waiting([&](const sequence&) { return job_outcome::of(what); }, now);
  while (!pooled_.empty()) {
    const auto job = std::move(pooled_.front());
    pooled_.pop_front();
    job->end(what, job->elapsed_ms(now));
  }
  if (config_.on_failure) config_.on_failure(what);
}

// Slot and pages are freed before the terminal event is sent, so that a client that reacts to the event finds
// them free. The event is sent even if freeing them runs out of host memory.
void scheduler::finish(std::uint32_t slot, const job_outcome& how, steady_time now) {
  const auto job = std::move(slots_[slot]);
  ORCD_ENSURE(job != nullptr && running_ > 0);
  --running_;
  if (!job->pool) forecast_.ended(job->tokens_out(), job->request.max_tokens);
  release(*job);
  try {
    give_back_pages(*job);
  } catch (const std::bad_alloc&) {
    job->finish(job_outcome::of(out_of_memory()), now);
    if (failure_) return;
    throw;
  }
  if (config_.on_released) config_.on_released();
  note_recovery(*job, how);
  job->finish(how, now);
}

void scheduler::release(sequence& job) noexcept {
  if (job.begun) accelerator_.release(slot_id{job.slot});
  job.begun = false;
  job.position = job.computed;
  job.pending = 0;
  job.drafts.clear();
  job.constraint_ahead.reset();
}

}  // namespace orcd::engine
