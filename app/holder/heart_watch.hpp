// Decides whether an engine hangs: its io thread sends a sign of life with a number that changes when its GPU
// thread has moved. Pure; the caller has the clock.
#pragma once

#include <chrono>
#include <cstdint>

namespace orcd::app {

class heart_watch {
 public:
  using time = std::chrono::steady_clock::time_point;
  /// `limit`: how long a heart may stand still; zero: for ever.
  heart_watch(std::chrono::milliseconds limit, time now) : limit_(limit), beat_at_(now), moved_at_(now) {}

  void beat(time now, std::uint64_t progress) noexcept {
    beat_at_ = now;
    if (progress != progress_) moved_at_ = now;
    progress_ = progress;
  }
  /// To be asked at least every look_interval. A caller that was stopped itself has not read what came
  /// meanwhile, and begins anew.
  [[nodiscard]] bool hangs(time now) noexcept {
    const bool slept = looked_at_ != time{} && now - looked_at_ > 4 * look_interval;
    looked_at_ = now;
    if (slept) beat_at_ = moved_at_ = now;
    return limit_.count() > 0 && (now - beat_at_ > limit_ || now - moved_at_ > limit_);
  }
  static constexpr std::chrono::milliseconds look_interval{250};

 private:
  std::chrono::milliseconds limit_;
  time beat_at_;
  time moved_at_;
  time looked_at_{};
  std::uint64_t progress_ = 0;
};

}  // namespace orcd::app
