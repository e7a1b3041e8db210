#include "net/status/histogram.hpp"

#include <algorithm>

namespace orcd::net {

void histogram::observe(double value) noexcept {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  ++count_;
  sum_ += value;
}

}  // namespace orcd::net
