// Signs of life of the threads that serve, for probes. Private to app/.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace orcd::app {

/// When the io thread and the GPU thread were last seen to move. Written by them, read by any thread.
class heartbeats {
 public:
  void of_io() noexcept { io_ = now(); }
  void of_gpu() noexcept { gpu_ = now(); }
  /// Another number when the GPU thread has moved since.
  [[nodiscard]] std::uint64_t gpu_progress() const noexcept {
    return static_cast<std::uint64_t>(gpu_.load());
  }
  /// Whether both have moved within `limit`.
  [[nodiscard]] bool are_younger_than(std::chrono::milliseconds limit) const noexcept {
    return now() - std::min(io_.load(), gpu_.load()) < limit.count();
  }

 private:
  [[nodiscard]] static std::int64_t now() noexcept {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  }
  std::atomic<std::int64_t> io_{now()};
  std::atomic<std::int64_t> gpu_{now()};
};

}  // namespace orcd::app
