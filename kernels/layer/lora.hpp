// y[m] += strength * scale * B (A x[m]) for columns whose slots have LoRA adapters, after the product that y
// comes from: one kernel for A, one for B. Which adapters a slot has lies in device memory, so that columns
// of different slots share a launch.
//
// Determinism class: run-to-run, batch-invariant, launch-invariant. f32 throughout; A x is a sum of each lane
// of a warp over every 32nd column, fused multiply-adds in ascending order, folded in a fixed tree; B takes
// its sum in the order of ranks; adapters are added in the slot's order, each product and sum rounded. Error
// against f64: that of such sums. Bound: latency, then memory bandwidth.
#pragma once

#include <cstdint>

#include "kernels/device/step_token.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

inline constexpr std::uint32_t lora_adapters_max = 8;  ///< of one slot

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

/// Which columns have which adapters.
struct lora_columns {
  const step_token* steps = nullptr;   ///< device, of the step
  const std::int32_t* rows = nullptr;  ///< device: the step's column of each column here; null: the same
  const lora_slot* slots = nullptr;    ///< device, [slots]
  std::uint32_t columns = 0;
  std::uint32_t most = 0;  ///< adapters of any of the columns
};

struct lora_args {
  lora_columns of;
  const lora_held* held = nullptr;  ///< device, [adapters][places]
  std::uint32_t places = 0;
  std::uint32_t place = 0;        ///< of the matrix
  const float* values = nullptr;  ///< device, [adapters][room]
  std::uint64_t room = 0;         ///< floats
  std::uint64_t a_at = 0;         ///< of A, [rank][in], in a room
  std::uint64_t b_at = 0;         ///< of B, [out][rank]
  std::uint32_t in = 0;
  std::uint32_t out = 0;
  std::uint32_t rank_max = 0;
  /// One of the two; or neither: the column of A is that of the column's token (embeddings).
  const __half* halves = nullptr;  ///< device, [columns][x_stride]
  const float* floats = nullptr;
  std::uint32_t x_stride = 0;
  float* inner = nullptr;  ///< device, [columns][lora_adapters_max][rank_max]
  float* y = nullptr;      ///< device, [columns][y_stride]
  std::uint32_t y_stride = 0;
};

/// Return the cudaError_t of the launch as an int (0 is success); never synchronize.
[[nodiscard]] int launch_lora(const lora_args& args, CUstream_st* stream);

/// act[m] = f16(activation of gate and up), as products with matmul_output::swiglu do it, for the columns
/// that have adapters; other rows are left alone.
struct lora_activate_args {
  lora_columns of;
  const float* gate_up = nullptr;  ///< device, [columns][2 * width]: gate, then up
  std::uint32_t width = 0;
  bool clamped = false;
  __half* act = nullptr;  ///< device, [columns][act_stride]
  std::uint32_t act_stride = 0;
};
[[nodiscard]] int launch_lora_activate(const lora_activate_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
