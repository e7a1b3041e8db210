// When spans that a collector did not take are sent again, and when they are given up. Pure. One thread.
#pragma once

#include <chrono>
#include <optional>

namespace orcd::net {

struct backoff_limits {
  std::chrono::milliseconds first{1'000};       ///< doubled after each further failure
  std::chrono::milliseconds max{5'000};         ///< of that
  std::chrono::milliseconds asked_max{30'000};  ///< of what a collector may ask for
  unsigned attempts = 5;                        ///< for the same spans
};

struct backoff_step {
  std::chrono::milliseconds wait{};  ///< before the next request, whatever it sends
  bool give_up = false;              ///< the spans that were just sent
};

class export_backoff {
 public:
  explicit export_backoff(backoff_limits limits) : limits_(limits), delay_(limits.first) {}

  void succeed();
  /// Those that failed are dropped. The next ones have their own attempts, but no quicker ones.
  void begin_other_spans();
  /// `asked`: the wait that the collector asks for. `random`, 0 to 1, takes up to half of the wait off, so
  /// that many workers do not come back at once.
  [[nodiscard]] backoff_step fail(std::optional<std::chrono::milliseconds> asked, double random);

 private:
  backoff_limits limits_;
  std::chrono::milliseconds delay_;
  unsigned attempts_ = 0;
};

}  // namespace orcd::net
