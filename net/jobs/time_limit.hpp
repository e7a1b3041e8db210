// When a request's jobs must be over: the earliest of the inference timeout, the request's own and X-Deadline
// (the last only when it is enforced). Pure. Source: WORK-3072, M0 14.1 item 8. Private to net/.
#pragma once

#include <chrono>
#include <optional>

#include "engine/schedule/job.hpp"
#include "net/http/http_request.hpp"
#include "net/limits.hpp"

namespace orcd::net {

/// The time left to X-Deadline, below 0 when it has passed; nothing without the header. Error:
/// invalid_request.
[[nodiscard]] engine::result<std::optional<std::chrono::milliseconds>> read_deadline(
    const http_request& request, std::chrono::system_clock::time_point wall);

struct time_limit {
  std::optional<engine::steady_time> at;
  bool is_final = false;  ///< it is X-Deadline, so that a retry would be late as well
};

/// Error: inference_timeout, permanent, for an enforced deadline that has passed.
[[nodiscard]] engine::result<time_limit> fix_time_limit(
    const http_request& request, std::optional<std::chrono::milliseconds> timeout,
    std::optional<std::chrono::milliseconds> deadline_left, const request_limits& limits);

}  // namespace orcd::net
