// A time limit on reading a request that, unlike the stream's own, leaves the connection open so that the
// client can be told. io thread only. Private to net/.
#pragma once

#include <chrono>
#include <memory>

#include "net/http/asio.hpp"

namespace orcd::net {

class read_limit {
 public:
  explicit read_limit(beast::tcp_stream& stream) : stream_(stream), timer_(stream.get_executor()) {}
  ~read_limit() { disarm(); }
  read_limit(const read_limit&) = delete;
  read_limit& operator=(const read_limit&) = delete;

  /// Begins now; ends the read in progress when the time is over. Not to be called while a read is in
  /// progress.
  void start(std::chrono::seconds limit) {
    disarm();
    armed_ = std::make_shared<target>(target{&stream_.socket()});
    // A read that is between two parts when the time is over cannot be cancelled: the stream's own limit ends
    // it.
    stream_.expires_after(limit + std::chrono::seconds(1));
    timer_.expires_after(limit);
    timer_.async_wait([to = armed_](error_code ec) {
      if (ec || to->socket == nullptr) return;
      to->passed = true;
      error_code ignored;
      to->socket->cancel(ignored);
    });
  }
  [[nodiscard]] bool passed() const noexcept { return armed_ && armed_->passed; }

 private:
  /// What a handler that was posted may touch: `socket` is null once its limit was replaced or is gone.
  struct target {
    tcp::socket* socket;
    bool passed = false;
  };
  void disarm() noexcept {
    if (armed_) armed_->socket = nullptr;
  }

  beast::tcp_stream& stream_;
  asio::steady_timer timer_;
  std::shared_ptr<target> armed_;
};

}  // namespace orcd::net
