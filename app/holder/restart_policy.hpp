// When an engine that ended is started again: soon at first, later each time that it ends soon. Pure.
#pragma once

#include <algorithm>
#include <chrono>

namespace orcd::app {

class restart_policy {
 public:
  static constexpr std::chrono::milliseconds shortest{100};
  static constexpr std::chrono::milliseconds longest{10'000};
  /// An engine that ran for this long is started anew as if it were the first time.
  static constexpr std::chrono::milliseconds well{60'000};

  /// How long to wait, after an engine that ran for that long.
  [[nodiscard]] std::chrono::milliseconds after(std::chrono::milliseconds ran) noexcept {
    const auto wait = ran >= well ? shortest : next_;
    next_ = std::min(2 * wait, longest);
    return wait;
  }

 private:
  std::chrono::milliseconds next_ = shortest;
};

}  // namespace orcd::app
