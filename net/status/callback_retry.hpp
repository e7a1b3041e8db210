// Whether and when the ready callback is tried again. Pure.
#pragma once

#include <chrono>

namespace orcd::net {

struct http_answer;

struct callback_delays {
  std::chrono::milliseconds first{200};   ///< doubled after each failure
  std::chrono::milliseconds max{30'000};  ///< of that, and of what Retry-After may ask for
};

/// Of an attempt that failed. False where the answer blames the request, which would be the same again: 4xx,
/// but for 429, which asks for patience.
[[nodiscard]] bool may_succeed_later(const http_answer& answer) noexcept;

/// The wait before the next attempt, after `made` that failed (at least 1), of which `last` came of the last
/// one.
[[nodiscard]] std::chrono::milliseconds callback_pause(const callback_delays& delays, unsigned made,
                                                       const http_answer& last);

}  // namespace orcd::net
