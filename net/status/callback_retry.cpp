#include "net/status/callback_retry.hpp"

#include <algorithm>

#include "net/http/http_post.hpp"

namespace orcd::net {

using std::chrono::milliseconds;

bool may_succeed_later(const http_answer& answer) noexcept {
  constexpr unsigned too_many_requests = 429;
  return answer.status / 100 != 4 || answer.status == too_many_requests;
}

milliseconds callback_pause(const callback_delays& delays, unsigned made, const http_answer& last) {
  milliseconds pause = std::min(delays.first, delays.max);
  for (unsigned i = 1; i < made && pause < delays.max; ++i) {
    pause = std::min(pause * 2, delays.max);
  }
  const auto asked = last.asked_wait();
  return asked ? std::max(pause, std::min<milliseconds>(*asked, delays.max)) : pause;
}

}  // namespace orcd::net
