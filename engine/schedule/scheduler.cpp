#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/lookup_drafts.hpp"
#include "engine/schedule/page_keys.hpp"

namespace orcd::engine {

namespace {

scheduler_config completed(scheduler_config config) {
  ORCD_ENSURE(config.slots > 0);
  if (!config.now) config.now = [] { return std::chrono::steady_clock::now(); };
  if (!config.drafts.source) config.drafts.source = make_lookup_drafts;
  std::sort(config.end_of_generation.begin(), config.end_of_generation.end());
  return config;
}

/// What the job's media are to the prefix cache.
void mark_media(job_request& request) {
  for (const job_medium& medium : request.media)
    request.cache.media.push_back(mark_of(medium.runs.front().position, medium.digest));
}

}  // namespace

scheduler::scheduler(accelerator& target, scheduler_config config)
    : accelerator_(target),
      config_(completed(std::move(config))),
      slots_(config_.slots),
      adapters_(target),
      device_(target),
      pages_(target, device_, config_.cache),
      growth_(target, pages_, config_.slots),
      failures_(config_),
      ends_({slots_, device_, pages_, growth_, failures_}, config_),
      starts_({waiting_, pooled_, slots_, device_, pages_, growth_, ends_}),
      drafts_(target, config_, pages_, ends_),
      media_(target, slots_),
      plan_(target, {slots_, device_, pages_, drafts_, ends_}),
      results_(config_.end_of_generation, slots_, pages_, ends_) {
  ORCD_ENSURE(accelerator_.chunk_tokens() > 0);
  sampled_.reserve(config_.slots + accelerator_.draft_tokens());
}

std::uint32_t scheduler::take_over_pages(page_ledger ledger) {
  ORCD_ENSURE(idle());
  return pages_.take_over(ledger);
}

void scheduler::open_pages() {
  pages_.open();
}

void scheduler::leave_pages() {
  ORCD_ENSURE(idle());
  pages_.leave();
}

void scheduler::submit(job_request request, std::shared_ptr<event_sink> sink) {
  ORCD_ENSURE(waiting_.size() + pooled_.size() + slots_.running() < jobs_max);
  const bool pooled = !request.inputs.empty();
  const auto produced = check_produced(request, std::numeric_limits<std::uint32_t>::max());
  if (!produced) request.produced.clear();
  std::optional<error> refusal = failures_.lost();
  if (!refusal && !produced) refusal = produced.error();
  const auto encodable = media_.check(request);
  if (!refusal && !encodable) refusal = encodable.error();
  mark_media(request);
  auto adapters = adapters_.take(request);
  if (!refusal && !adapters) refusal = adapters.error();
  if (pooled && refusal) {
    std::make_shared<pooled_job>(std::move(request), std::move(sink))->end(*refusal, 0.0);
    return;
  }
  pages_.make_cache();
  if (pooled) {
    pooled_.push(std::make_shared<pooled_job>(std::move(request), std::move(sink)));
    return;
  }
  auto job = std::make_unique<sequence>(std::move(request), std::move(sink));
  if (refusal) {
    job->finish(job_outcome::of(*refusal), config_.now());
    return;
  }
  if (drafts_.enabled()) job->drafts.set_source(config_.drafts.source(job->request, job->prompt_tokens));
  job->adapters = std::move(*adapters);
  waiting_.push(std::move(job), config_.now());
}

void scheduler::cancel(const std::string& job_id, cancel_reason reason) {
  end_jobs([&](const job_request& job) { return job.job_id == job_id; }, reason, config_.now());
}

void scheduler::cancel_all(cancel_reason reason) {
  end_jobs([](const job_request&) { return true; }, reason, config_.now());
}

void scheduler::end_jobs(const std::function<bool(const job_request&)>& which, cancel_reason reason,
                         steady_time now) {
  const auto how = [&](const sequence& job) {
    return job_outcome::of(reason, ms_between(job.request.received_at, now));
  };
  pooled_.end_if(which, reason, now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& job = slots_[slot];
    if (job && which(job->request)) ends_.end(slot, how(*job), now);
  }
  waiting_.end_if([&](const sequence& job) { return which(job.request); }, how, now);
}

result<void> scheduler::begin_adapter(std::uint32_t index, const lora_adapter& adapter) {
  if (failures_.lost()) return *failures_.lost();
  return attempt_put([&] { return adapters_.begin(index, adapter); });
}

std::optional<result<void>> scheduler::continue_adapter() {
  if (failures_.lost()) return result<void>(*failures_.lost());
  std::optional<result<void>> done;
  const auto went = attempt_put([&] {
    done = adapters_.go_on();
    return result<void>();
  });
  if (!went) return went;
  return done;
}

/// Lack of room ends no job: none that runs has asked for it.
template <class Work>
result<void> scheduler::attempt_put(Work&& work) {
  try {
    return work();
  } catch (const accelerator_failure& failure) {
    if (failure.code != errc::vram_oom) handle_failure(failure);
    return error(failure.code, failure.what());
  }
}

bool scheduler::drop_adapter(std::uint32_t index) noexcept {
  return adapters_.drop(index);
}

void scheduler::interrupt_if_alone(std::string_view job_id) noexcept {
  if (only_job_.load(std::memory_order_acquire) == job_key(job_id)) interrupt();
}

scheduler_counts scheduler::counts() const noexcept {
  scheduler_counts out;
  out.running = running();
  out.waiting = waiting();
  out.short_of_pages = pages_.lacks() ? std::min(out.waiting, slots_.size() - out.running) : 0;
  out.kv_positions = slots_.positions();
  out.steps = steps_;
  out.preemptions = pages_.preemptions();
  out.media = media_.counts();
  out.drafts = results_.drafts();
  if (pages_.cache() != nullptr) out.cache = pages_.cache()->counts();
  return out;
}

// The interrupt flag is cleared after the steps, not before them: an interrupt() between two calls must stop
// the next step. `only_job_` is cleared as well, so that an interrupt_if_alone() that comes too late stops
// nothing.
bool scheduler::run_step() {
  const steady_time now = config_.now();
  adapters_.forget_unused();
  end_jobs([&](const job_request& job) { return job.deadline && now >= *job.deadline; },
           cancel_reason::timeout, now);
  const auto admit = [&] {
    preempt_lost();
    starts_.admit(now, steps_);
  };
  if (!attempt(admit)) return !idle();
  // A job that ended when it got its slot has left it to one that waits.
  if (slots_.running() == 0 && launched_.empty()) return !idle() && !pages_.awaits_opening();
  struct publish {
    scheduler& self;
    ~publish() {
      self.only_job_.store(0, std::memory_order_release);
      self.interrupt_.store(false, std::memory_order_relaxed);
    }
  } guard{*this};
  attempt([&] {
    media_.advance();
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

// The step is recorded before it is launched: if launch() throws, forget_launched() has to know its sequences
// too. Pages are given before a step is planned, so that no part of it belongs to a job that is preempted.
void scheduler::launch_steps() {
  while (launched_.size() < accelerator_.launch_depth()) {
    give_pages();
    if (!plan_.plan()) break;
    launched_.push(plan_.take_record());
    only_job_.store(launched_.only_key(), std::memory_order_release);
    accelerator_.launch(plan_.step(), interrupt_);
    if (pages_.cache() != nullptr) pages_.cache()->launched();
  }
  only_job_.store(launched_.only_key(), std::memory_order_release);
}

void scheduler::give_pages() {
  while (const sequence* job = growth_.give_pages(slots_)) preempt(job->slot);
  growth_.give_pages_for_drafts(slots_);
}

// Steps that were launched for it are collected and mean nothing, as those of a job that has ended. Whatever
// was not told yet is drawn again with the same draws.
void scheduler::preempt(std::uint32_t slot) {
  sequence& job = waiting_.put_back(slots_, slot);
  pages_.keep_state(job);
  device_.release(job);
  job.leave_slot();
  pages_.preempt(job);
  if (config_.on_preempted) config_.on_preempted(job.request.job_id, job.tokens_out());
}

/// Jobs whose states were lost with a step: they begin again at a boundary, with pages of their own behind
/// it.
void scheduler::preempt_lost() {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot] && slots_[slot]->lease.windows.lost_state) preempt(slot);
  }
}

void scheduler::collect_step() {
  if (launched_.empty()) return;
  sampled_.clear();
  if (!accelerator_.collect(interrupt_, sampled_)) {
    forget_launched();
    return;
  }
  ++steps_;
  if (pages_.cache() != nullptr) pages_.cache()->collected();
  launched_step step = launched_.take_oldest();
  results_.accept(step, sampled_, config_.now());
  plan_.reuse(std::move(step));
}

// After a step that did not complete, the accelerator's state of its sequences is undefined beyond what
// earlier steps computed. They go on from there (from position 0 on an accelerator without pages) and give
// the same bits.
void scheduler::forget_launched() noexcept {
  for (const auto& step : launched_.all()) {
    for (const auto& part : step) {
      sequence* const job = slots_.find(part.slot, part.admission);
      if (job == nullptr) continue;
      device_.release(*job);
      pages_.set_back(*job);
    }
  }
  launched_.clear();
  if (pages_.cache() != nullptr) pages_.cache()->forgot_launched();
}

// Out of device memory ends one job and has the others computed again; a job ends each time, so that this
// cannot go on for ever. Any other failure ends all jobs.
void scheduler::handle_failure(const accelerator_failure& failure) {
  const error what(failure.code, failure.what());
  const steady_time now = config_.now();
  if (failure.code != errc::vram_oom) return lose(what);
  media_.forget();
  failures_.run_short(what, slots_.admissions());
  const sequence* victim = device_.take_failed();
  if (victim == nullptr) victim = failures::choose_victim(launched_, slots_);
  if (victim != nullptr) ends_.end(victim->slot, job_outcome::of(what), now);
  forget_launched();
}

void scheduler::lose(const error& why) {
  const steady_time now = config_.now();
  static_cast<void>(device_.take_failed());
  launched_.clear();
  if (pages_.cache() != nullptr) pages_.cache()->forgot_launched();
  failures_.lose(why);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot]) ends_.end(slot, job_outcome::of(why), now);
  }
  waiting_.end_if([](const sequence&) { return true; }, [&](const sequence&) { return job_outcome::of(why); },
                  now);
  pooled_.end_all(why, now);
  if (config_.on_failure) config_.on_failure(why);
}

}  // namespace orcd::engine
