// A warp makes one value of A x; a thread adds to one value of y. Columns without adapters leave at once.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/layer/lora.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t threads = 256;
constexpr std::uint32_t warps = threads / 32;

__device__ __forceinline__ const step_token& step_of(const lora_columns& of, std::uint32_t column) {
  return of.steps[of.rows == nullptr ? column : static_cast<std::uint32_t>(of.rows[column])];
}
__device__ __forceinline__ const lora_slot& slot_of(const lora_columns& of, std::uint32_t column) {
  return of.slots[step_of(of, column).slot];
}
__device__ __forceinline__ lora_held held_of(const lora_args& a, std::int32_t adapter) {
  return a.held[static_cast<std::uint64_t>(adapter) * a.places + a.place];
}
__device__ __forceinline__ const float* room_of(const lora_args& a, std::int32_t adapter) {
  return a.values + static_cast<std::uint64_t>(adapter) * a.room;
}
__device__ __forceinline__ float* inner_of(const lora_args& a, std::uint32_t column, std::uint32_t n) {
  return a.inner + (static_cast<std::uint64_t>(column) * lora_adapters_max + n) * a.rank_max;
}

/// One row of A times x, in lane 0.
__device__ float row_product(const lora_args& a, const float* row, std::uint32_t column) {
  const std::uint64_t at = static_cast<std::uint64_t>(column) * a.x_stride;
  float sum = 0.0F;
  for (std::uint32_t c = threadIdx.x % 32; c < a.in; c += 32) {
    const float x = a.halves != nullptr ? __half2float(a.halves[at + c]) : a.floats[at + c];
    sum = fmaf(row[c], x, sum);
  }
  return warp_sum(sum);
}

__global__ void __launch_bounds__(threads) lora_in_kernel(lora_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t column = blockIdx.x;
  const std::uint32_t value = blockIdx.y * warps + threadIdx.x / 32;
  const std::uint32_t n = value / a.rank_max;
  const std::uint32_t r = value % a.rank_max;
  const lora_slot& slot = slot_of(a.of, column);
  if (n >= static_cast<std::uint32_t>(slot.count)) return;
  const std::int32_t adapter = slot.uses[n].adapter;
  if (r >= static_cast<std::uint32_t>(held_of(a, adapter).rank)) return;
  const float* row = room_of(a, adapter) + a.a_at + static_cast<std::uint64_t>(r) * a.in;
  float sum = 0.0F;
  if (a.halves == nullptr && a.floats == nullptr) {
    const std::int32_t token = step_of(a.of, column).token;
    sum = token < 0 || static_cast<std::uint32_t>(token) >= a.in ? 0.0F : row[token];
  } else {
    sum = row_product(a, row, column);
  }
  if (threadIdx.x % 32 == 0) inner_of(a, column, n)[r] = sum;
}

__global__ void __launch_bounds__(threads) lora_out_kernel(lora_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t column = blockIdx.x;
  const std::uint32_t row = blockIdx.y * threads + threadIdx.x;
  const lora_slot& slot = slot_of(a.of, column);
  if (slot.count == 0 || row >= a.out) return;
  float* const to = a.y + static_cast<std::uint64_t>(column) * a.y_stride + row;
  float y = *to;
  for (std::uint32_t n = 0; n < static_cast<std::uint32_t>(slot.count); ++n) {
    const lora_use use = slot.uses[n];
    const lora_held held = held_of(a, use.adapter);
    const auto rank = static_cast<std::uint32_t>(held.rank);
    if (rank == 0) continue;
    const float* b = room_of(a, use.adapter) + a.b_at + static_cast<std::uint64_t>(row) * rank;
    const float* inner = inner_of(a, column, n);
    float sum = 0.0F;
    for (std::uint32_t r = 0; r < rank; ++r) sum = fmaf(b[r], inner[r], sum);
    y = __fadd_rn(y, __fmul_rn(__fmul_rn(use.strength, held.scale), sum));
  }
  *to = y;
}

__global__ void __launch_bounds__(threads) lora_activate_kernel(lora_activate_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t column = blockIdx.x;
  if (slot_of(a.of, column).count == 0) return;
  const float* gate = a.gate_up + static_cast<std::uint64_t>(column) * 2 * a.width;
  __half* act = a.act + static_cast<std::uint64_t>(column) * a.act_stride;
  for (std::uint32_t i = threadIdx.x; i < a.width; i += threads) {
    const float g = gate[i];
    const float u = gate[a.width + i];
    act[i] = to_half(a.clamped ? swiglu_clamped(g, u) : silu(g) * u);
  }
}

bool is_whole(const lora_columns& of) {
  return of.steps != nullptr && of.slots != nullptr && of.columns > 0 && of.most > 0 &&
         of.most <= lora_adapters_max;
}

}  // namespace

int launch_lora(const lora_args& a, CUstream_st* stream) {
  const bool reads = a.halves != nullptr || a.floats != nullptr;
  if (!is_whole(a.of) || a.held == nullptr || a.values == nullptr || a.inner == nullptr || a.y == nullptr ||
      a.place >= a.places || a.rank_max == 0 || a.in == 0 || a.out == 0 || a.y_stride < a.out ||
      (a.halves != nullptr && a.floats != nullptr) || (reads && a.x_stride < a.in)) {
    return cudaErrorInvalidValue;
  }
  const dim3 values(a.of.columns, (a.of.most * a.rank_max + warps - 1) / warps);
  if (const auto failed = launch_dependent(lora_in_kernel, values, dim3(threads), 0, stream, a);
      failed != cudaSuccess) {
    return failed;
  }
  return launch_dependent(lora_out_kernel, dim3(a.of.columns, (a.out + threads - 1) / threads), dim3(threads),
                          0, stream, a);
}

int launch_lora_activate(const lora_activate_args& a, CUstream_st* stream) {
  if (!is_whole(a.of) || a.gate_up == nullptr || a.act == nullptr || a.width == 0 || a.act_stride < a.width) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(lora_activate_kernel, dim3(a.of.columns), dim3(threads), 0, stream, a);
}

}  // namespace orcd::kernels
