#include "app/process/standard_streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <initializer_list>

namespace orcd::app {

void open_standard_streams() noexcept {
  // open() takes the lowest number that is free, and in this order that is the closed one.
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) < 0) static_cast<void>(::open("/dev/null", O_RDWR));
  }
}

void write_error_at_once(std::string_view line) noexcept {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&ready, 1, 0) < 1 || (ready.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace orcd::app
