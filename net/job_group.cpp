#include "net/job_group.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::net {

using engine::cancel_reason;
using engine::steady_time;

job_group::job_group(std::string id, std::vector<execution> runs, answer_form form)
    : id_(std::move(id)), runs_(std::move(runs)), form_(std::move(form)) {
  ORCD_ENSURE(!runs_.empty() && (form_.streams || form_.whole));
}

void job_group::cancel(cancel_reason reason, steady_time now) {
  for (execution& run : runs_) run.cancel(reason, now);
}

void job_group::client_gone(steady_time now) {
  for (execution& run : runs_) run.client_gone(now);
}

const execution* job_group::failed() const noexcept {
  const auto found = std::find_if(runs_.begin(), runs_.end(), [](const execution& run) {
    return run.failure().has_value() && run.cancelled_by() != cancel_reason::sibling_failed;
  });
  return found == runs_.end() ? nullptr : &*found;
}

void job_group::tick(steady_time now) {
  for (execution& run : runs_) run.tick(now);
  if (failed() != nullptr) cancel(cancel_reason::sibling_failed, now);
}

std::string job_group::take_output(steady_time now) {
  std::string out;
  const execution* const failure = failed();
  std::string last;
  for (execution& run : runs_) {
    std::string frames = run.take_output(now, &run == failure);
    if (over_) continue;
    (&run == failure ? last : out) += frames;
  }
  if (over_) return {};
  out += last;
  over_ = all_told() || (failure != nullptr && form_.streams);
  if (over_ && failure == nullptr && form_.streams && form_.closing) out += form_.closing();
  return out;
}

bool job_group::all_told() const noexcept {
  return std::all_of(runs_.begin(), runs_.end(), [](const execution& run) { return run.stream_over(); });
}

std::size_t job_group::output_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const execution& run : runs_) bytes += run.output_bytes();
  return bytes;
}

steady_time job_group::next_tick() const noexcept {
  steady_time next = steady_time::max();
  for (const execution& run : runs_) next = std::min(next, run.next_tick());
  return next;
}

bool job_group::job_over() const noexcept {
  return std::all_of(runs_.begin(), runs_.end(), [](const execution& run) { return run.job_over(); });
}

reply job_group::whole() const {
  if (const execution* failure = failed()) return make_error_reply(*failure->failure());
  return make_json_reply(200, form_.whole());
}

std::function<std::string()> job_group::whole_beside() const {
  return form_.whole_beside && failed() == nullptr && job_over() ? form_.whole : nullptr;
}

bool job_group::completed() const noexcept {
  return std::all_of(runs_.begin(), runs_.end(), [](const execution& run) {
    return !run.closes_connection() && run.result() == outcome::completed;
  });
}

phase job_group::where() const noexcept {
  phase farthest = phase::queued;
  for (const execution& run : runs_) farthest = std::max(farthest, run.where());
  return farthest;
}

}  // namespace orcd::net
