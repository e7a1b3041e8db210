// Walks over rows whose width need not be a multiple of sixteen.
#pragma once

#include "kernels/host/isa/for_format.hpp"
#include "kernels/host/isa/lanes.hpp"

namespace orcd::kernels::host::ORCD_ISA {

/// Calls body(offset, count) for every sixteen values; the last call may have fewer.
template <class Body>
ORCD_INLINE void each_sixteen(std::uint32_t width, Body body) {
  const std::uint32_t whole = width & ~15U;
  for (std::uint32_t i = 0; i < whole; i += lane_count) body(i, std::uint32_t{lane_count});
  if (whole != width) body(whole, width - whole);
}

ORCD_INLINE float_lanes load_some(const float* from, std::uint32_t count) {
  return count == lane_count ? load(from) : load_tail(from, count);
}
ORCD_INLINE void store_some(float* to, float_lanes v, std::uint32_t count) {
  if (count == lane_count) {
    store(to, v);
  } else {
    store_tail(to, v, count);
  }
}

}  // namespace orcd::kernels::host::ORCD_ISA
