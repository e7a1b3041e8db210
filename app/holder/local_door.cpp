#include "app/holder/local_door.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

namespace orcd::app {
namespace {

using boost::system::error_code;
using net::file_descriptor;

constexpr std::chrono::milliseconds pause_length{20};

}  // namespace

local_door::local_door(boost::asio::io_context& io, int listener, net::peer_rule rule,
                       engine::narrator& narrator, std::function<void(file_descriptor)> taken)
    : socket_(io, ::fcntl(listener, F_DUPFD_CLOEXEC, 0)),
      pause_(io),
      rule_(rule),
      narrator_(narrator),
      taken_(std::move(taken)) {}

void local_door::start() {
  socket_.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this](error_code failed) {
    if (!failed) take_one();
  });
}

void local_door::take_one() {
  file_descriptor socket(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    if (net::is_allowed(socket.get(), rule_)) {
      taken_(std::move(socket));
    } else {
      narrator_.narrate(engine::severity::warning, "stranger_refused", "Another user's process was refused");
    }
    return start();
  }
  const bool passing = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
  return passing ? start() : pause();
}

/// Out of descriptors, most likely.
void local_door::pause() {
  pause_.expires_after(pause_length);
  pause_.async_wait([this](error_code failed) {
    if (!failed) start();
  });
}

}  // namespace orcd::app
