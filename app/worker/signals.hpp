// The signals that the guard's thread has taken, handled on the io thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "app/process/process_guard.hpp"
#include "app/process/shutdown.hpp"

namespace orcd::app {

class signals {
 public:
  struct hooks {
    std::function<void(shutdown_event, const char* name)> stop;
    std::function<void()> hung_up;
    std::function<void()> hand_over;
  };

  /// Listens from now on. Throws std::system_error where there is no descriptor left.
  signals(boost::asio::io_context& io, process_guard& guard, hooks asked);
  /// After a handler that failed, with which the wait for the next signal may be lost.
  void listen_again();

 private:
  void listen();

  process_guard& guard_;
  const hooks asked_;
  boost::asio::posix::stream_descriptor taken_;
};

}  // namespace orcd::app
