// A time limit on reading a request that, unlike the stream's own, leaves the connection open so that the
// client can be told. io thread only. Private to net/.
#pragma once

#include <chrono>
#include <memory>

#include "net/http/asio.hpp"
#include "net/http/connection.hpp"

namespace orcd::net {

/// How much longer a client has, when its time is found to be over `late_by` after it ended. The process was
/// stopped or had no processor for as long: it neither looked at the clock nor read what the client sent. At
/// most the limit once more, which is all that the client can have lost. Nothing for the few milliseconds
/// that every timer is late by, but a second if there is something to read: where many connections are ready,
/// the event loop takes some at a time, and expired timers before the rest.
[[nodiscard]] constexpr std::chrono::nanoseconds time_given_back(std::chrono::nanoseconds late_by,
                                                                 std::chrono::nanoseconds limit,
                                                                 bool readable) noexcept {
  constexpr std::chrono::milliseconds usual{20};
  constexpr std::chrono::seconds to_read{1};
  std::chrono::nanoseconds back = late_by < usual ? std::chrono::nanoseconds(0) : late_by;
  if (readable && back < to_read) back = to_read;
  return back < limit ? back : limit;
}

class read_limit {
 public:
  explicit read_limit(beast::tcp_stream& stream) : socket_(stream.socket()), timer_(stream.get_executor()) {}
  ~read_limit() { disarm(); }
  read_limit(const read_limit&) = delete;
  read_limit& operator=(const read_limit&) = delete;

  /// Begins now; ends the read in progress when the time is over, and time_given_back() once. A read that
  /// begins later is not ended: passed() is to be asked before each. Not to be called while a read is in
  /// progress.
  void start(std::chrono::seconds limit) {
    disarm();
    armed_ = std::make_shared<target>(target{&socket_, &timer_, limit});
    timer_.expires_after(limit);
    wait(armed_);
  }
  [[nodiscard]] bool passed() const noexcept { return armed_ && armed_->passed; }

 private:
  /// What a handler that was posted may touch: `socket` is null once its limit was replaced or is gone.
  struct target {
    tcp::socket* socket;
    asio::steady_timer* timer;
    std::chrono::nanoseconds limit;
    bool passed = false;
    bool longer = false;  ///< time was given back; that is done once, so that every limit ends
  };
  static void wait(const std::shared_ptr<target>& to) {
    to->timer->async_wait([to](error_code ec) {
      if (!ec && to->socket != nullptr) end(to);
    });
  }
  static void end(const std::shared_ptr<target>& to) {
    const auto late_by = std::chrono::steady_clock::now() - to->timer->expiry();
    const auto more = time_given_back(late_by, to->limit, readable_bytes(*to->socket) > 0);
    if (more.count() > 0 && !to->longer) {
      to->longer = true;
      to->timer->expires_after(more);
      return wait(to);
    }
    to->passed = true;
    error_code ignored;
    to->socket->cancel(ignored);
  }
  void disarm() noexcept {
    if (armed_) armed_->socket = nullptr;
  }

  tcp::socket& socket_;
  asio::steady_timer timer_;
  std::shared_ptr<target> armed_;
};

}  // namespace orcd::net
