// What the kernels of LoRA adapters are given (lora.hpp). Shared by host and device code; no CUDA types.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.hpp"
#include "kernels/device/step_token.hpp"

struct __half;

namespace orcd::kernels {

inline constexpr std::uint32_t lora_adapters_max = 8;  ///< of one slot
inline constexpr std::uint32_t lora_matrices_max = 3;  ///< that read the same x

struct lora_use {
  std::int32_t adapter = 0;
  float strength = 0.0F;
};
/// What a slot's sequence has, in the order in which it is added.
struct lora_slot {
  std::int32_t count = 0;
  lora_use uses[lora_adapters_max];
};
/// A pair of one adapter beside one matrix.
struct lora_held {
  std::int32_t rank = 0;  ///< 0: there is none
  float scale = 0.0F;
};

/// From the begin of a row of A to the next, in floats; and from one rank of B to the next.
[[nodiscard]] ORCD_HD constexpr std::uint64_t lora_stride(std::uint32_t values) noexcept {
  return (std::uint64_t{values} + 3) / 4 * 4;
}

/// Which columns have which adapters.
struct lora_columns {
  const step_token* steps = nullptr;   ///< device, of the step
  const std::int32_t* rows = nullptr;  ///< device: the step's column of each column here; null: the same
  const lora_slot* slots = nullptr;    ///< device, [slots]
  std::uint32_t columns = 0;
  bool one_slot = false;  ///< all columns are of one slot; not with `rows`
};

/// A matrix of the model that adapters may have a pair for.
struct lora_matrix {
  std::uint32_t place = 0;
  std::uint32_t out = 0;
  std::uint32_t y_at = 0;  ///< its first value in a row of y
  std::uint64_t a_at = 0;  ///< of A, [rank][lora_stride(in)], in a room; a multiple of 4
  std::uint64_t b_at = 0;  ///< of B, [rank][lora_stride(out)], likewise
};

/// All adapters that the device has.
struct lora_tables {
  const lora_held* held = nullptr;  ///< device, [adapters][places]
  std::uint32_t places = 0;
  const float* values = nullptr;  ///< device, [adapters][room]
  std::uint64_t room = 0;         ///< floats, a multiple of 4
};

struct lora_add_args {
  lora_columns of;
  lora_tables tables;
  lora_matrix matrices[lora_matrices_max];
  std::uint32_t count = 0;  ///< of the matrices; their values of y do not overlap
  std::uint32_t in = 0;
  std::uint32_t rank_max = 0;
  /// One of the two; or neither: the column of A is that of the column's token (embeddings).
  const __half* halves = nullptr;  ///< device, [columns][x_stride]
  const float* floats = nullptr;
  std::uint32_t x_stride = 0;
  float* inner = nullptr;  ///< device, [columns][lora_matrices_max][lora_adapters_max][rank_max]
  float* y = nullptr;      ///< device, [columns][y_stride]
  std::uint32_t y_stride = 0;
  /// If y is gate and up, [columns][2 * width]: y stays as it is, and every column's sums are activated as
  /// products with matmul_output::swiglu do it, act[m] = f16(activation).
  struct {
    __half* act = nullptr;  ///< device, [columns][act_stride]
    std::uint32_t act_stride = 0;
    std::uint32_t width = 0;
    bool clamped = false;
  } gated;
};

/// Part of a matrix from where the host has copied it to where the kernels read it: value i of `count`
/// is value first + i of rows of `width`, and goes to to[row * row_step + column * column_step].
struct lora_store_args {
  const float* from = nullptr;  ///< device, [count]
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint32_t width = 0;
  std::uint64_t row_step = 0;
  std::uint64_t column_step = 0;
  float* to = nullptr;  ///< device
};

}  // namespace orcd::kernels
