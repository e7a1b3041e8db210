#include "net/jobs/admission_hold.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::net {

using engine::result;

admission_hold::admission_hold(service& s, std::string request_id,
                               const std::vector<engine::job_request>& jobs, const key_owner& owner,
                               std::function<void()> on_jobs_over)
    : service_(s),
      owner_(owner),
      shown_id_(std::move(request_id)),
      id_(scoped_job_id(owner, shown_id_)),
      on_jobs_over_(std::move(on_jobs_over)),
      unfinished_(jobs.size()) {
  jobs_.reserve(jobs.size());
  for (const auto& job : jobs) jobs_.push_back(scoped_job_id(owner, job.job_id));
  // What was taken can always be noted: a place that is not would never be given back.
  inside_.reserve(jobs_.size());
  over_.reserve(jobs_.size());
  reserved_.reserve(jobs_.size() + 1);
}

admission_hold::~admission_hold() {
  hide();
  // Without an exception the jobs have ended, or the io_context is being destroyed with the frames of a
  // server that was never stopped: then admission may be gone already and must not be touched.
  if (std::uncaught_exceptions() > 0) give_up();
}

result<void> admission_hold::enter(bool again) {
  auto entered = enter_all(again);
  // The refusal names the id that the client gave, not the scoped one.
  if (!entered && entered.error().code == engine::errc::duplicate_job)
    return engine::duplicate_job(shown_id_);
  if (entered) {
    service_.context.admission.begin_answer();
    answering_ = true;
  }
  return entered;
}

result<void> admission_hold::enter_all(bool again) {
  auto& admission = service_.context.admission;
  // From here on they count as running, also those that wait for their turn after a takeover.
  if (admission.running() == 0) service_.busy_since = std::chrono::steady_clock::now();
  const std::size_t places = std::min<std::size_t>(jobs_.size(), service_.context.identity.slots);
  const auto reserve = [&](const std::string& name) -> result<void> {
    auto reserved = admission.reserve(name);
    if (reserved) reserved_.push_back(&name);
    return reserved;
  };
  // The name of one job is that of its request.
  result<void> in;
  if (jobs_.size() > 1) in = reserve(id_);
  for (std::size_t job = 0; in && job < jobs_.size(); ++job) {
    const auto take = [&] {
      return again ? admission.enter_again(jobs_[job], owner_.key_id)
                   : admission.enter(jobs_[job], owner_.key_id);
    };
    in = job < places ? take() : reserve(jobs_[job]);
    if (in && job < places) inside_.push_back(job);
  }
  entered_ = inside_.size();
  if (!in) leave();
  return in;
}

void admission_hold::show(open_stream& stream) {
  shown_ = service_.streams.emplace(id_, &stream).second;
  ORCD_ENSURE(shown_);
}

void admission_hold::submit(engine::job_request job, std::shared_ptr<engine::event_sink> events) {
  ORCD_ENSURE(can_submit());
  if (next_ >= entered_) {
    const std::size_t before = over_.back();
    service_.context.admission.hand_on(jobs_[before], jobs_[next_]);
    std::erase(reserved_, &jobs_[next_]);
    over_.pop_back();
    std::replace(inside_.begin(), inside_.end(), before, next_);
  }
  job.job_id = jobs_[next_];
  job.cache.salt = scoped_salt(owner_, job.cache.salt);
  service_.context.jobs.submit(std::move(job), std::move(events));
  ++next_;
}

void admission_hold::skip() {
  ++next_;
  count_end();
}

void admission_hold::job_ended(std::size_t job) {
  over_.push_back(job);
  count_end();
}

void admission_hold::count_end() {
  if (--unfinished_ > 0) return;
  leave();
  if (answering_) on_jobs_over_();
}

void admission_hold::finish() {
  leave();
  if (std::exchange(answering_, false)) service_.context.admission.end_answer();
}

void admission_hold::leave() {
  hide();
  auto& admission = service_.context.admission;
  for (const std::string* name : reserved_) admission.unreserve(*name);
  reserved_.clear();
  over_.clear();
  while (!inside_.empty()) {
    const std::size_t job = inside_.back();
    inside_.pop_back();
    admission.leave(jobs_[job]);
  }
}

void admission_hold::hide() {
  if (std::exchange(shown_, false)) service_.streams.erase(id_);
}

/// Cancels what was submitted. A job that cannot be cancelled for lack of memory keeps its place, so that
/// never more jobs run than admission allows; but before that it is worth some milliseconds of waiting for
/// memory.
void admission_hold::give_up() noexcept {
  constexpr int tries_max = 50;
  for (int i = 0; i < tries_max && !try_to_give_up(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool admission_hold::try_to_give_up() noexcept {
  try {
    while (next_ > 0) {
      service_.context.jobs.cancel(jobs_[next_ - 1], engine::cancel_reason::disconnected);
      --next_;
    }
    finish();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace orcd::net
