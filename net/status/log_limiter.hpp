// How many lines of one kind the log gets in a second; the rest is counted. io thread only.
#pragma once

#include <chrono>
#include <cstdint>

namespace orcd::net {

class log_limiter {
 public:
  using clock = std::chrono::steady_clock;
  explicit log_limiter(std::uint32_t per_second) : most_(per_second) {}

  /// Whether a line may be written now; one that may not is counted.
  [[nodiscard]] bool may(clock::time_point now) noexcept {
    if (now - since_ >= std::chrono::seconds(1)) {
      since_ = now;
      written_ = 0;
    }
    if (written_ < most_) return ++written_, true;
    ++untold_;
    return false;
  }
  /// Lines that were not written, since the start.
  [[nodiscard]] std::uint64_t untold() const noexcept { return untold_; }

 private:
  std::uint32_t most_;
  std::uint32_t written_ = 0;
  std::uint64_t untold_ = 0;
  clock::time_point since_{};
};

}  // namespace orcd::net
