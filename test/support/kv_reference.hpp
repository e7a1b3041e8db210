// What a cached K or V is worth, in f64 and straight from the definition in engine/model/kv_type.hpp;
// shares nothing with the kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "engine/model/kv_type.hpp"

namespace orcd::test {

inline constexpr std::array device_kv_types{engine::kv_type::f16, engine::kv_type::bf16,
                                            engine::kv_type::q8_0};
/// The host backend's.
inline constexpr std::array every_kv_type{engine::kv_type::f16, engine::kv_type::bf16, engine::kv_type::q8_0,
                                          engine::kv_type::f32};

/// `v` rounded to a format of `digits` significant bits whose smallest normal number is 2^lowest; nearest,
/// ties to even.
inline double rounded(double v, int digits, int lowest) {
  if (v == 0) return v;
  const double quantum = std::ldexp(1.0, std::max(std::ilogb(v), lowest) - digits + 1);
  return std::nearbyint(v / quantum) * quantum;
}

inline double as_half(double v) {
  return rounded(v, 11, -14);
}

/// One head's vector as attention sees it.
inline std::vector<double> cached_row(engine::kv_type type, std::span<const float> row) {
  std::vector<double> out(row.begin(), row.end());
  const auto limit = [](double v, double most) { return std::min(std::max(v, -most), most); };
  switch (type) {
    case engine::kv_type::f32:
      for (double& v : out) v = limit(v, std::numeric_limits<float>::max());
      break;
    case engine::kv_type::f16:
      for (double& v : out) v = as_half(limit(v, 65504));
      break;
    case engine::kv_type::bf16:
      for (double& v : out) v = rounded(limit(v, std::ldexp(255, 120)), 8, -126);
      break;
    case engine::kv_type::q8_0:
      for (std::size_t first = 0; first < out.size(); first += 32) {
        const auto block = std::span(out).subspan(first, std::min<std::size_t>(32, out.size() - first));
        float largest = 0;
        for (const double v : block)
          largest = std::max(largest, static_cast<float>(std::fabs(limit(v, 65504))));
        const float d = largest / 127;
        const double scale = std::min(as_half(d), 515.5);
        for (double& v : block) {
          const float steps = scale == 0 ? 0 : static_cast<float>(limit(v, 65504)) * (1 / d);
          v = as_half(scale * std::copysign(std::floor(std::fabs(double{steps}) + 0.5), steps));
        }
      }
      break;
  }
  return out;
}

}  // namespace orcd::test
