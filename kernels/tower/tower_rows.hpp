// What happens to rows of a tower between its products: norms in f32, activations, limits, squares of patches
// that become one row.
// Determinism class: run-to-run; a row's bits depend on its own values. Bound: memory. Error: that of f32
// sums, and of f16 where the output is f16.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

/// In place: (x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias, or, not `centred`, the RMS norm.
struct norm_rows_args {
  float* x = nullptr;             ///< [rows][width]
  const float* weight = nullptr;  ///< [width]
  const float* bias = nullptr;    ///< [width] or null
  std::uint32_t width = 0;
  std::uint32_t rows = 0;
  float eps = 0.0F;
  bool centred = false;
};
[[nodiscard]] int launch_norm_rows(const norm_rows_args& args, CUstream_st* stream);

/// The forms of GELU of kernels/host/gelu.hpp, and of kernels/host/swiglu.hpp with a gate, which lies before
/// the values that it multiplies.
enum class tower_activation : std::uint8_t { exact, tanh, sigmoid, silu_gate, tanh_gate };
[[nodiscard]] ORCD_HD constexpr bool has_gate(tower_activation form) noexcept {
  return form >= tower_activation::silu_gate;
}

/// out[m] = f16 of the activated row, zeros from `width` on up to the stride.
struct activate_rows_args {
  const float* x = nullptr;  ///< [rows][width], with a gate [rows][2 * width]; 16-byte aligned
  std::uint32_t width = 0;
  std::uint32_t rows = 0;
  tower_activation form = tower_activation::exact;
  __half* out = nullptr;         ///< [rows][out_stride], 8-byte aligned
  std::uint32_t out_stride = 0;  ///< a multiple of 4
};
[[nodiscard]] int launch_activate_rows(const activate_rows_args& args, CUstream_st* stream);

/// Values of rows beyond the limits become the nearest of them. Of f32 in place, `add`: what they become is
/// added to `to`; NaN stays NaN.
struct clip_rows_args {
  float* x = nullptr;  ///< [rows][stride]
  std::uint32_t stride = 0;
  std::uint32_t width = 0;
  std::uint32_t rows = 0;
  float low = 0.0F, high = 0.0F;
  float* to = nullptr;  ///< [rows][width] or null: in place
};
[[nodiscard]] int launch_clip_rows(const clip_rows_args& args, CUstream_st* stream);
/// The same of f16, padding and all, to another place.
struct clip_halves_args {
  const __half* x = nullptr;  ///< [rows][stride]
  __half* out = nullptr;      ///< [rows][stride]
  std::uint32_t stride = 0;
  std::uint32_t width = 0;
  std::uint32_t rows = 0;
  float low = 0.0F, high = 0.0F;
};
[[nodiscard]] int launch_clip_halves(const clip_halves_args& args, CUstream_st* stream);

/// Squares of patches, line by line of the view, become one row each: their values one patch after the other,
/// or `by_channel` those of each channel together, or, `average`, ((their mean) * scale - bias) * factor.
struct merge_patches_args {
  const float* x = nullptr;  ///< [patches][width]
  /// The patch at each place of the view, line by line; null: rows are of `side` patches one after the other.
  const std::uint32_t* patch_at = nullptr;  ///< device
  std::uint32_t columns = 0;                ///< patches of a line of the view
  std::uint32_t side = 1;
  std::uint32_t width = 0;
  std::uint32_t rows = 0;
  bool by_channel = false;
  bool average = false;
  float scale = 1.0F;
  const float* bias = nullptr;  ///< [width] or null, with `factor`
  const float* factor = nullptr;
  /// [rows][out_stride], of one of the two kinds; halves have zeros from the row's values on.
  float* out = nullptr;
  __half* out_halves = nullptr;
  std::uint32_t out_stride = 0;

  /// Patches of a row.
  [[nodiscard]] std::uint32_t patches() const noexcept { return patch_at == nullptr ? side : side * side; }
  [[nodiscard]] std::uint32_t row_width() const noexcept { return average ? width : width * patches(); }
};
[[nodiscard]] int launch_merge_patches(const merge_patches_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
