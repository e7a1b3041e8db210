#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/schedule/pooled_job.hpp"
#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

scheduler::scheduler(accelerator& device, scheduler_config config)
    : device_(device),
      config_(std::move(config)),
      chunk_tokens_(device.chunk_tokens()),
      slots_(config_.slots) {
  ORCD_ENSURE(config_.slots > 0 && chunk_tokens_ > 0);
  if (!config_.now) config_.now = [] { return std::chrono::steady_clock::now(); };
  std::sort(config_.end_of_generation.begin(), config_.end_of_generation.end());
  parts_.reserve(config_.slots);
  sampled_.reserve(config_.slots);
}

scheduler::~scheduler() = default;

void scheduler::submit(job_request request, std::shared_ptr<event_sink> sink) {
  ORCD_ENSURE(waiting_.size() + pooled_.size() + running_ < jobs_max);
  chunk_tokens_ = device_.chunk_tokens();
  const bool pooled = !request.inputs.empty();
  if (pooled && failure_) {
    std::make_shared<pooled_job>(std::move(request), std::move(sink))->end(*failure_, 0.0);
    return;
  }
  if (const kv_geometry pages = device_.kv_pages(); !cache_ && pages.pages > 0) {
    cache_ = std::make_unique<kv_cache>(pages, config_.cache, [this](auto freed) { device_.clear(freed); });
  }
  if (pooled) {
    pooled_.push_back(std::make_shared<pooled_job>(std::move(request), std::move(sink)));
    return;
  }
  auto job = std::make_unique<sequence>(std::move(request), std::move(sink));
  if (failure_) {
    job->finish(outcome::of(*failure_), config_.now());
    return;
  }
  waiting_.push_back(std::move(job));
}

void scheduler::cancel(const std::string& job_id, cancel_reason reason) {
  const auto has_id = [&](const auto& job) { return job && job->request.job_id == job_id; };
  const steady_time now = config_.now();
  const auto why = [&](const sequence& job) {
    return outcome::of(reason, ms_between(job.request.received_at, now));
  };
  end_pooled([&](const pooled_job& job) { return job.id() == job_id; }, reason, now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (has_id(slots_[slot])) finish(slot, why(*slots_[slot]), now);
  }
  while (true) {
    const auto it = std::find_if(waiting_.begin(), waiting_.end(), has_id);
    if (it == waiting_.end()) return;
    const auto job = std::move(*it);
    waiting_.erase(it);
    job->finish(why(*job), now);
  }
}

void scheduler::cancel_all(cancel_reason reason) {
  const steady_time now = config_.now();
  end_pooled([](const pooled_job&) { return true; }, reason, now);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!slots_[slot]) continue;
    finish(slot, outcome::of(reason, ms_between(slots_[slot]->request.received_at, now)), now);
  }
  for (auto& job : std::exchange(waiting_, {})) {
    job->finish(outcome::of(reason, ms_between(job->request.received_at, now)), now);
  }
}

void scheduler::interrupt_if_alone(std::string_view job_id) noexcept {
  if (alone_.load(std::memory_order_acquire) == job_key(job_id)) interrupt();
}

// The interrupt flag is cleared after the steps, not before: an interrupt() that comes between two calls
// must not be lost. `alone_` is published around them so that a targeted interrupt that comes too late
// finds nothing to stop.
bool scheduler::run_step() {
  const steady_time now = config_.now();
  expire(now);
  if (!attempt([&] { admit(now); })) return !idle();
  if (running_ == 0 && launched_.empty()) return false;
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

/// The one place where a failure of the accelerator is caught; false after one.
template <class Work>
bool scheduler::attempt(Work&& work) {
  try {
    work();
    return true;
  } catch (const accelerator_failure& failure) {
    handle_failure(failure);
    return false;
  }
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
    finish(slot, outcome::of(cancel_reason::timeout, ms_between(job->request.received_at, now)), now);
  }
  std::erase_if(waiting_, [&](const auto& job) {
    if (!job->overdue(now)) return false;
    job->finish(outcome::of(cancel_reason::timeout, ms_between(job->request.received_at, now)), now);
    return true;
  });
}

bool scheduler::plan() {
  parts_.clear();
  spare_.clear();
  for (const auto& job : slots_) {
    if (job && job->missing() > 1) catch_up(*job);
  }
  for (const auto& job : slots_) {
    if (job && job->can_decode()) add_part(*job, 1);
  }
  plan_prefill();
  return !parts_.empty();
}

// A job whose turn it is; pooled ones go on together as far as they fit into the step.
void scheduler::plan_prefill() {
  const auto count = static_cast<std::uint32_t>(slots_.size());
  const std::uint32_t first = prefill_turn_;
  std::uint32_t left = chunk_tokens_;
  for (std::uint32_t i = 0; i < count && left > 0; ++i) {
    const std::uint32_t slot = (first + i) % count;
    const auto& job = slots_[slot];
    if (!job || !job->can_prefill() || waits_for_page(*job)) continue;
    const bool begins = left == chunk_tokens_;
    if (!begins && (!job->pool || job->missing() > left)) continue;
    const std::uint32_t tokens = std::min(job->missing(), left);
    add_part(*job, tokens);
    left = job->pool ? left - tokens : 0;
    if (begins) prefill_turn_ = (slot + 1) % count;
  }
}

// A token that is still under way has no value here: the device feeds it back.
void scheduler::add_part(sequence& job, std::uint32_t tokens) {
  begin(job);
  const std::span<const token_id> all(job.tokens);
  const bool known = job.pending == 0;
  const bool last = !known || tokens == job.missing();
  parts_.push_back({slot_id{job.slot}, job.position,
                    known ? all.subspan(job.position, tokens) : std::span<const token_id>{},
                    last && !job.pool ? job.ask() : nullptr, job.pool ? &*job.pool : nullptr});
  job.on_device = true;
  job.position += tokens;
  job.lease.written = std::max(job.lease.written, job.position);
  spare_.push_back({job.slot, job.admission, job.key, tokens, job.position, last});
  if (last) ++job.pending;
}

// A step counts as launched before it is: if launch() throws, its sequences are forgotten with the others.
void scheduler::launch_steps() {
  while (launched_.size() < device_.launch_depth() && plan()) {
    launched_.push_back(std::move(spare_));
    alone_.store(only_key(), std::memory_order_release);
    device_.launch(parts_, interrupt_);
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
  if (!device_.collect(interrupt_, sampled_)) {
    forget_launched();
    return;
  }
  ++steps_;
  launched_step step = std::move(launched_.front());
  launched_.erase(launched_.begin());
  accept_results(step, config_.now());
  spare_ = std::move(step);
}

void scheduler::accept_results(const launched_step& step, steady_time now) {
  std::size_t next = 0;
  for (const auto& part : step) {
    sequence* job = job_of(part);
    if (job != nullptr) note_computed(*job, part.end);
    if (!part.samples) continue;
    ORCD_ENSURE(next < sampled_.size() && sampled_[next].slot == slot_id{part.slot});
    const sampled_token& chosen = sampled_[next++];
    if (job == nullptr) continue;
    --job->pending;
    accept_result(*job, chosen, now);
  }
  ORCD_ENSURE(next == sampled_.size());
}

/// The job of a launched part, unless it has ended.
scheduler::sequence* scheduler::job_of(const launched_part& part) noexcept {
  const auto& job = slots_[part.slot];
  return job && job->admission == part.admission ? job.get() : nullptr;
}

void scheduler::accept_result(sequence& job, const sampled_token& chosen, steady_time now) {
  if (!job.pool) return accept_token(job, chosen, now);
  ORCD_ENSURE(chosen.pooled != nullptr);
  job.pooled = chosen.pooled;
  if (!std::all_of(job.pooled->begin(), job.pooled->end(), [](float v) { return std::isfinite(v); })) {
    return finish(job.slot, outcome::of(error(errc::internal, "the model's states are not all finite")), now);
  }
  finish(job.slot, outcome::of(finish_reason::stop), now);
}

// The end-of-generation token itself is neither sent nor counted.
void scheduler::accept_token(sequence& job, const sampled_token& chosen, steady_time now) {
  const token_id token = chosen.token;
  job.draws_ahead.erase(job.draws_ahead.begin());
  if (token < 0) {
    finish(job.slot, outcome::of(job.no_token()), now);
    return;
  }
  const auto& ends = config_.end_of_generation;
  if (job.stops_at_end() && std::binary_search(ends.begin(), ends.end(), token)) {
    finish(job.slot, outcome::of(finish_reason::stop), now);
    return;
  }
  token_constraint* constraint = job.request.constraint.get();
  if (constraint != nullptr && !constraint->accept(token)) {
    finish(job.slot, outcome::of(error(errc::internal, "a token was chosen that the grammar does not allow")),
           now);
    return;
  }
  job.append(chosen, now);
  if (constraint != nullptr && constraint->complete()) {
    finish(job.slot, outcome::of(finish_reason::stop), now);
    return;
  }
  if (job.tokens_out() == job.request.max_tokens) finish(job.slot, outcome::of(finish_reason::length), now);
}

// After a step that did not complete, what the device holds of its sequences is undefined beyond what steps
// before it computed: they go on from there (without pages, from position 0) and reach the same bits.
void scheduler::forget_launched() noexcept {
  for (const auto& step : launched_) {
    for (const auto& part : step) {
      if (sequence* job = job_of(part)) release(*job);
    }
  }
  launched_.clear();
}

// Out of memory costs one job and leaves the others to be computed again; each time at least one job
// ends, so that this cannot go on for ever. Anything else ends all of them.
void scheduler::handle_failure(const accelerator_failure& failure) {
  const error what(failure.code, failure.what());
  const steady_time now = config_.now();
  if (failure.code == errc::vram_oom) {
    if (config_.on_degraded) config_.on_degraded(what);
    if (const sequence* victim = out_of_memory_victim()) finish(victim->slot, outcome::of(what), now);
    forget_launched();
    return;
  }
  failure_ = what;
  beginning_ = nullptr;
  launched_.clear();
  if (config_.on_lost) config_.on_lost(what);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot]) finish(slot, outcome::of(what), now);
  }
  for (auto& job : std::exchange(waiting_, {})) job->finish(outcome::of(what), now);
  for (const auto& job : std::exchange(pooled_, {})) job->end(what, job->elapsed_ms(now));
  if (config_.on_failure) config_.on_failure(what);
}

// A job that was being begun has asked for the memory. For a step the seam does not say who has: the longest
// part of those in progress is the likeliest, and among equals the job that came last.
scheduler::sequence* scheduler::out_of_memory_victim() noexcept {
  if (beginning_ != nullptr) return std::exchange(beginning_, nullptr);
  sequence* victim = nullptr;
  if (launched_.empty()) {
    for (const auto& job : slots_) {
      if (job && (victim == nullptr || job->admission > victim->admission)) victim = job.get();
    }
    return victim;
  }
  std::size_t longest = 0;
  for (const auto& step : launched_) {
    for (const auto& part : step) {
      sequence* job = job_of(part);
      if (job == nullptr) continue;
      const bool worse = victim == nullptr || part.tokens > longest ||
                         (part.tokens == longest && job->admission > victim->admission);
      if (!worse) continue;
      victim = job;
      longest = part.tokens;
    }
  }
  return victim;
}

// The slot is free before the terminal event is sent, so that whoever reacts to the event finds it so.
void scheduler::finish(std::uint32_t slot, const outcome& how, steady_time now) {
  const auto job = std::move(slots_[slot]);
  ORCD_ENSURE(job != nullptr && running_ > 0);
  --running_;
  release(*job);
  give_back_pages(*job);
  if (config_.on_released) config_.on_released();
  job->finish(how, now);
}

void scheduler::release(sequence& job) noexcept {
  if (job.on_device) device_.release(slot_id{job.slot});
  job.on_device = false;
  job.position = job.computed;
  job.pending = 0;
}

}  // namespace orcd::engine
