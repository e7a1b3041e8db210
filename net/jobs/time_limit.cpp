#include "net/jobs/time_limit.hpp"

#include <algorithm>

#include "net/json/request_fields.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::milliseconds;

result<std::optional<milliseconds>> read_deadline(const http_request& request,
                                                  std::chrono::system_clock::time_point wall) {
  using maybe = std::optional<milliseconds>;
  if (!request.deadline) return maybe();
  const auto deadline = parse_deadline(*request.deadline);
  if (!deadline) return deadline.error();
  return maybe(std::chrono::duration_cast<milliseconds>(*deadline - wall));
}

result<time_limit> fix_time_limit(const http_request& request, std::optional<milliseconds> timeout,
                                  std::optional<milliseconds> deadline_left, const request_limits& limits) {
  const bool enforced = deadline_left && limits.deadlines == deadline_mode::enforce;
  if (enforced && deadline_left->count() <= 0) {
    error late(
        errc::inference_timeout,
        "X-Deadline passed " + std::to_string(-deadline_left->count()) + " ms before the request arrived",
        "X-Deadline");
    late.permanent = true;
    return late;
  }
  std::optional<milliseconds> limit = timeout;
  if (limits.inference_timeout.count() > 0) {
    limit = std::min(limit.value_or(limits.inference_timeout), limits.inference_timeout);
  }
  if (enforced) limit = std::min(limit.value_or(*deadline_left), *deadline_left);
  time_limit out;
  if (limit) out.at = request.received_at + *limit;
  out.is_final = enforced && limit == deadline_left;
  return out;
}

}  // namespace orcd::net
