// Division by a number that is known before the kernel starts, as a multiplication.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.hpp"

namespace orcd::kernels {

/// Division of n by d for n * d < 2^32.
struct divider {
  std::uint64_t inverse;  ///< 2^32 / d, rounded up
  std::uint32_t d;

  ORCD_HD static constexpr divider by(std::uint32_t d) { return {((1ULL << 32U) + d - 1) / d, d}; }
  [[nodiscard]] ORCD_HD constexpr std::uint32_t quotient(std::uint32_t n) const {
    return static_cast<std::uint32_t>(n * inverse >> 32U);
  }
};

}  // namespace orcd::kernels
