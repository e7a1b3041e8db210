#include "app/worker/signals.hpp"

#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace orcd::app {

namespace asio = boost::asio;

signals::signals(asio::io_context& io, process_guard& guard, hooks asked)
    : guard_(guard), asked_(std::move(asked)), taken_(io) {
  // A copy, because it is closed with this object and the guard outlives that.
  const int copy = ::dup(guard_.descriptor());
  if (copy < 0) throw std::system_error(errno, std::generic_category(), "cannot copy a descriptor");
  taken_.assign(copy);
  listen();
}

void signals::listen_again() {
  taken_.cancel();
  listen();
}

void signals::listen() {
  taken_.async_wait(asio::posix::descriptor_base::wait_read, [this](const boost::system::error_code& failed) {
    if (failed) return;
    listen();
    auto [interrupts, terminations, hangups, hand_overs] = guard_.take();
    for (; terminations > 0; --terminations) asked_.stop(shutdown_event::sigterm, "SIGTERM");
    for (; interrupts > 0; --interrupts) asked_.stop(shutdown_event::sigint, "SIGINT");
    if (hangups > 0) asked_.hung_up();
    if (hand_overs > 0) asked_.hand_over();
  });
}

}  // namespace orcd::app
