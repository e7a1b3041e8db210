// A histogram in Prometheus's sense. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orcd::net {

/// Cumulative histogram over fixed upper bounds.
class histogram {
 public:
  explicit histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] double sum() const noexcept { return sum_; }
  [[nodiscard]] std::span<const double> bounds() const noexcept { return bounds_; }
  /// Observations per bucket, not cumulative; the last is above every bound.
  [[nodiscard]] std::span<const std::uint64_t> counts() const noexcept { return counts_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

}  // namespace orcd::net
