// The order in which experts are chosen, shared by every kernel that chooses.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// Order-preserving bits of a float above the inverted id: the maximum is the highest logit, then the
/// lowest id. NaN counts as lower than everything.
__device__ inline std::uint64_t rank_key(float logit, std::uint32_t id) {
  if (isnan(logit)) return ~id;
  const std::uint32_t bits = __float_as_uint(logit);
  const std::uint32_t ordered = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(ordered) << 32 | (~id & 0xFFFFFFFFU);
}

/// The logit of a key; NaN for all that were one.
__device__ inline float logit_of_key(std::uint64_t key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  if (ordered == 0) return __uint_as_float(0x7FFFFFFFU);
  return __uint_as_float(ordered & 0x80000000U ? ordered & 0x7FFFFFFFU : ~ordered);
}

}  // namespace orcd::kernels
