// Standard output of the pipe: a line a token, written by the thread that has the token, with the main thread
// for what the reader does not take at once. Linux only: a pipe that polls as writable takes a line without
// blocking.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

namespace orcd::app {

class token_output {
 public:
  /// `descriptor` stays the caller's.
  explicit token_output(int descriptor) : descriptor_(descriptor) {}

  /// Writes a number and a line end, or keeps them for flush() where that would block, or where something is
  /// kept already. Any thread, one at a time.
  void line(std::uint64_t number) noexcept;
  /// Writes what was kept, as much as the reader takes. Main thread.
  void flush() noexcept;
  /// Something is kept.
  [[nodiscard]] bool waits() const noexcept { return waits_; }
  /// Nobody reads any more, or a write failed; nothing is written from then on.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

 private:
  /// How many of the bytes were written.
  [[nodiscard]] std::size_t write_some(const char* bytes, std::size_t count) noexcept;
  void keep(const char* bytes, std::size_t count) noexcept;

  int descriptor_;
  std::mutex mutex_;
  std::string kept_;
  std::size_t sent_ = 0;  ///< of what was kept
  std::atomic<bool> waits_{false};
  std::atomic<bool> broken_{false};
};

}  // namespace orcd::app
