#include "app/exit_guard.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace orcd::app {

exit_guard::~exit_guard() {
  {
    const std::lock_guard lock(mutex_);
    released_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void exit_guard::arm(std::chrono::milliseconds limit, exit_code code) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const std::lock_guard lock(mutex_);
  if (thread_.joinable() && deadline >= deadline_) return;
  deadline_ = deadline;
  code_ = code;
  if (!thread_.joinable()) thread_ = std::thread([this] { wait(); });
  changed_.notify_all();
}

void exit_guard::wait() {
  std::unique_lock lock(mutex_);
  while (!released_) {
    if (std::chrono::steady_clock::now() >= deadline_) {
      constexpr std::string_view text = "worker-orcd: the shutdown did not finish in time; exiting\n";
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
      std::_Exit(static_cast<int>(code_));
    }
    changed_.wait_until(lock, deadline_);
  }
}

}  // namespace orcd::app
