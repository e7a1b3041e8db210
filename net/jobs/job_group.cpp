#include "net/jobs/job_group.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::net {

using engine::cancel_reason;
using engine::steady_time;

job_group::job_group(std::string id, std::vector<job_execution> executions, answer_plan plan)
    : id_(std::move(id)), executions_(std::move(executions)), plan_(std::move(plan)) {
  ORCD_ENSURE(!executions_.empty() && (plan_.streams || plan_.body));
}

void job_group::cancel(cancel_reason reason, steady_time now) {
  for (job_execution& execution : executions_) execution.cancel(reason, now);
}

void job_group::client_gone(steady_time now) {
  for (job_execution& execution : executions_) execution.client_gone(now);
}

const job_execution* job_group::failed() const noexcept {
  const auto found = std::find_if(executions_.begin(), executions_.end(), [](const job_execution& execution) {
    return execution.failure().has_value() && execution.cancelled_by() != cancel_reason::sibling_failed;
  });
  return found == executions_.end() ? nullptr : &*found;
}

void job_group::tick(steady_time now) {
  for (job_execution& execution : executions_) execution.tick(now);
  if (failed() != nullptr) cancel(cancel_reason::sibling_failed, now);
}

std::string job_group::take_output(steady_time now) {
  std::string out;
  const job_execution* const failure = failed();
  std::string last;
  for (job_execution& execution : executions_) {
    std::string frames = execution.take_output(now, &execution == failure);
    if (over_) continue;
    (&execution == failure ? last : out) += frames;
  }
  if (over_) return {};
  out += last;
  over_ = all_streams_over() || (failure != nullptr && plan_.streams);
  if (over_ && failure == nullptr && plan_.streams && plan_.closing) out += plan_.closing();
  return out;
}

bool job_group::all_streams_over() const noexcept {
  return std::all_of(executions_.begin(), executions_.end(),
                     [](const job_execution& execution) { return execution.stream_over(); });
}

std::size_t job_group::output_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const job_execution& execution : executions_) bytes += execution.output_bytes();
  return bytes;
}

steady_time job_group::next_tick() const noexcept {
  steady_time next = steady_time::max();
  for (const job_execution& execution : executions_) next = std::min(next, execution.next_tick());
  return next;
}

bool job_group::job_over() const noexcept {
  return std::all_of(executions_.begin(), executions_.end(),
                     [](const job_execution& execution) { return execution.job_over(); });
}

reply job_group::final_reply() const {
  if (const job_execution* failure = failed()) return make_error_reply(*failure->failure());
  return make_json_reply(200, plan_.body());
}

std::function<std::string()> job_group::background_body() const {
  return plan_.body_in_background && failed() == nullptr && job_over() ? plan_.body : nullptr;
}

bool job_group::completed() const noexcept {
  return std::all_of(executions_.begin(), executions_.end(), [](const job_execution& execution) {
    return !execution.closes_connection() && execution.result() == outcome::completed;
  });
}

phase job_group::where() const noexcept {
  phase farthest = phase::queued;
  for (const job_execution& execution : executions_) farthest = std::max(farthest, execution.where());
  return farthest;
}

}  // namespace orcd::net
