// Clients for whom a holder has no room: told so, and forgotten. What that costs is bounded, however many
// there are. On the thread of one io_context.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "net/failover/file_descriptor.hpp"

namespace orcd::app {

class refused_clients {
 public:
  /// `sockets_max`: what the answer says that the limit is.
  refused_clients(boost::asio::io_context& io, std::uint32_t sockets_max);

  /// Sends a 503 with Retry-After, and closes the connection a little later: at once, the client's request,
  /// which nobody reads, would make the kernel take the answer back.
  void refuse(net::file_descriptor client);
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }

  /// Those whose end is waited for; with one more the oldest is closed.
  static constexpr std::size_t kept_max = 64;
  static constexpr std::chrono::milliseconds kept_for{1'000};

 private:
  using clock = std::chrono::steady_clock;
  struct kept {
    net::file_descriptor socket;
    clock::time_point until;
  };
  void close_oldest();
  void await();

  const std::string answer_;
  boost::asio::steady_timer timer_;
  std::deque<kept> kept_;
  std::uint64_t count_ = 0;
};

}  // namespace orcd::app
