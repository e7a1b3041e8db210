#include "app/pipe/token_output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <new>

namespace orcd::app {

void token_output::line(std::uint64_t number) noexcept {
  std::array<char, 24> text{};
  char* end = std::to_chars(text.data(), text.data() + text.size() - 1, number).ptr;
  *end++ = '\n';
  const auto count = static_cast<std::size_t>(end - text.data());
  const std::lock_guard lock(mutex_);
  const std::size_t written = kept_.empty() ? write_some(text.data(), count) : 0;
  if (written < count) keep(text.data() + written, count - written);
}

void token_output::keep(const char* bytes, std::size_t count) noexcept {
  if (broken_) return;
  try {
    kept_.append(bytes, count);
    waits_ = true;
  } catch (const std::bad_alloc&) {
    broken_ = true;
  }
}

std::size_t token_output::write_some(const char* bytes, std::size_t count) noexcept {
  if (broken_) return 0;
  pollfd ready{descriptor_, POLLOUT, 0};
  if (::poll(&ready, 1, 0) < 1 || (ready.revents & POLLOUT) == 0) {
    broken_ = (ready.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    return 0;
  }
  const auto written = ::write(descriptor_, bytes, std::min<std::size_t>(count, PIPE_BUF));
  if (written >= 0) return static_cast<std::size_t>(written);
  broken_ = errno != EINTR && errno != EAGAIN;
  return 0;
}

void token_output::flush() noexcept {
  const std::lock_guard lock(mutex_);
  while (sent_ < kept_.size()) {
    const std::size_t written = write_some(kept_.data() + sent_, kept_.size() - sent_);
    if (written == 0) break;
    sent_ += written;
  }
  if (sent_ == kept_.size() || broken_) {
    kept_.clear();
    sent_ = 0;
  }
  waits_ = !kept_.empty();
}

}  // namespace orcd::app
