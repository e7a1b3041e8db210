// Wakes one coroutine of the io thread: a raise() that nobody waits for is remembered until the next wait.
// Private to net/.
#pragma once

#include "engine/schedule/job.hpp"
#include "net/http/asio.hpp"

namespace orcd::net {

/// All members are for the io thread. Owned by shared_ptr where a posted handler may outlive its stream.
class signal {
 public:
  explicit signal(const asio::any_io_executor& executor) : timer_(executor) {}

  void raise() {
    raised_ = true;
    timer_.cancel();
  }
  /// Completes when raised, or at `until`.
  asio::awaitable<void> wait_until(engine::steady_time until) {
    if (!raised_) {
      timer_.expires_at(until);
      const auto [ec] = co_await timer_.async_wait(as_tuple_token);
      static_cast<void>(ec);  // expiry and cancellation both mean: look again
    }
    raised_ = false;
  }

 private:
  asio::steady_timer timer_;
  bool raised_ = false;
};

}  // namespace orcd::net
