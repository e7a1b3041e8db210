// Gated activations of the feed-forward.
// silu:    out = g / (1 + e^-g) * u
// squared: out = max(g, 0)^2 * u, the square first
// gelu:    the tanh form of kernels/host/gelu.hpp of g, times u
// clamped: g = min(g, limit), u = clamp(u, -limit, limit); out = g / (1 + e^(-alpha g)) * (u + 1)
// Source: Shazeer 2002.05202; the clamped form is that of gpt-oss, limit 7 and alpha 1.702.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

inline constexpr float swiglu_clamp_limit = 7.0F;
inline constexpr float swiglu_clamp_alpha = 1.702F;

enum class gated_activation { silu, clamped, squared, gelu };

struct swiglu_args {
  const float* gate = nullptr;  ///< [rows] of `width`, in_stride apart
  const float* up = nullptr;    ///< the same
  float* out = nullptr;         ///< [rows][width]
  std::size_t in_stride = 0;
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  gated_activation kind = gated_activation::silu;
};

namespace host {
class thread_pool;
void swiglu(const swiglu_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
