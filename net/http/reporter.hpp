// The thread on which the worker tells others of itself: an io_context, one coroutine that is begun again
// whatever ends it, and a farewell. Private to net/.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "net/http/asio.hpp"

namespace orcd::net {

/// What it does there; all on its thread.
struct reporter_duties {
  std::function<asio::awaitable<void>()> work;
  std::function<bool()> over;              ///< whether `work` is not to be begun again
  std::function<void()> failed;            ///< `work` has thrown, for lack of memory; may not throw
  std::function<void()> last;              ///< at the end; what it throws is left
  std::chrono::milliseconds pause{1'000};  ///< after `work` has thrown
};

class reporter {
 public:
  reporter() = default;
  ~reporter() { end(); }
  reporter(const reporter&) = delete;
  reporter& operator=(const reporter&) = delete;

  /// Once. May throw std::system_error where there is no thread to be had.
  void start(reporter_duties duties);
  /// Ends until_left(). Any thread; returns at once.
  void leave() noexcept;
  /// leave(), and waits for the end. What the duties use must live until then.
  void end() noexcept;

  [[nodiscard]] bool leaving() const noexcept { return leaving_; }
  /// There was no memory to tell the thread to leave: it was stopped where it was.
  [[nodiscard]] bool stopped_short() const noexcept { return stopped_short_; }

  /// For timers of the thread, and for `last`.
  [[nodiscard]] asio::io_context& io() noexcept { return io_; }
  /// Ends the wait for a timer of the thread. Any thread; false where there is no memory for it.
  bool wake(asio::steady_timer& timer) noexcept;
  /// Of the thread.
  asio::awaitable<void> until_left();

 private:
  void run() noexcept;

  reporter_duties duties_;
  std::atomic<bool> leaving_{false};
  std::atomic<bool> stopped_short_{false};
  asio::io_context io_{1};
  asio::steady_timer left_{io_, std::chrono::steady_clock::time_point::max()};
  std::jthread thread_;  ///< last: it uses what is above
};

}  // namespace orcd::net
