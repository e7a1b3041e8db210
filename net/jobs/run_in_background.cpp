#include "net/jobs/run_in_background.hpp"

#include <poll.h>

#include "net/jobs/reading_plan.hpp"

namespace orcd::net {

background_plan plan_reading(endpoint target, const http_request& request) {
  return {reading_length(target, request.body.size()), "the request could not be prepared",
          "the request was not made tokens within 30 s"};
}

bool is_lost(connection& c) noexcept {
  auto& socket = c.stream.socket();
  if (!socket.is_open()) return true;
  pollfd state{socket.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

}  // namespace orcd::net
