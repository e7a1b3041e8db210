// The port that clients connect to. Connects wait in the kernel's queue while nobody takes them. On the
// thread of one io_context.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/error.hpp"
#include "net/failover/file_descriptor.hpp"

namespace orcd::app {

class client_port {
 public:
  /// `wanted`: whether one more connection can be accepted now; `taken` gets it. Both are called after
  /// start().
  client_port(boost::asio::io_context& io, std::function<bool()> wanted,
              std::function<void(net::file_descriptor)> taken);

  /// Listens. True if it does, false if another socket listens there already. Errors: as start_errc().
  [[nodiscard]] engine::result<bool> listen(const std::string& host, std::uint16_t port);
  /// Takes a socket that listens already.
  void adopt(net::file_descriptor listener);
  /// Accepts for as long as connections are wanted. Called again when they are again.
  void start();
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return socket_.is_open(); }
  [[nodiscard]] int descriptor() { return socket_.native_handle(); }

 private:
  void accept_some();
  void pause();

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;  ///< where there are no descriptors left
  const std::function<bool()> wanted_;
  const std::function<void(net::file_descriptor)> taken_;
  bool waiting_ = false;
};

}  // namespace orcd::app
