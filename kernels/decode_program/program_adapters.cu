// A warp looks up what a sequence has in one phase: lane n * lora_matrices_max + m the pair of its n-th
// adapter beside the m-th matrix.
#include <cuda_runtime.h>

#include "kernels/decode_program/program_adapters.hpp"
#include "kernels/device/launch.cuh"
#include "kernels/layer/lora_parts.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t lanes = 32;
constexpr std::uint32_t all_lanes = 0xFFFFFFFFU;
static_assert(lora_adapters_max * lora_matrices_max <= lanes);

/// The sum of the lanes before this one.
__device__ __forceinline__ std::uint32_t sum_before(std::uint32_t value) {
  std::uint32_t end = value;
#pragma unroll
  for (std::uint32_t step = 1; step < lanes; step *= 2) {
    const std::uint32_t before = __shfl_up_sync(all_lanes, end, step);
    if (threadIdx.x >= step) end += before;
  }
  return end - value;
}

__global__ void __launch_bounds__(lanes) describe_adapters_kernel(describe_adapters_args a) {
  wait_for_previous_kernel();
  const phase_matrices& of = a.matrices[blockIdx.x];
  const std::uint32_t n = threadIdx.x / lora_matrices_max;
  const std::uint32_t m = threadIdx.x % lora_matrices_max;
  lora_held held;
  lora_use use;
  if (n < static_cast<std::uint32_t>(a.slot->count) && n < lora_adapters_max && m < of.count) {
    use = a.slot->uses[n];
    held = lora_parts::held_of(a.tables, use.adapter, of.matrices[m].place);
  }
  const auto rank = static_cast<std::uint32_t>(held.rank);
  const std::uint32_t first = sum_before(rank);
  const std::uint32_t index = sum_before(rank > 0 ? 1 : 0);
  const bool taken = rank > 0 && index < program_pairs_max && first + rank <= program_inner_max;
  phase_pairs& to = a.to[blockIdx.x];
  if (taken) {
    const lora_matrix& matrix = of.matrices[m];
    const std::uint64_t room = static_cast<std::uint64_t>(use.adapter) * a.tables.room;
    to.pairs[index] = {static_cast<std::uint32_t>((room + matrix.a_at) / 4),
                       static_cast<std::uint32_t>((room + matrix.b_at) / 4),
                       __fmul_rn(use.strength, held.scale),
                       static_cast<std::uint16_t>(first),
                       static_cast<std::uint16_t>(rank),
                       matrix.y_at,
                       matrix.out};
  }
  const auto count = static_cast<std::uint32_t>(__popc(static_cast<int>(__ballot_sync(all_lanes, taken))));
  const std::uint32_t values = __reduce_add_sync(all_lanes, taken ? rank : 0U);
  if (threadIdx.x == 0) {
    to.count = count;
    to.values = values;
    to.in = of.in;
  }
}

}  // namespace

int launch_describe_adapters(const describe_adapters_args& a, CUstream_st* stream) {
  if (a.matrices == nullptr || a.phases == 0 || a.slot == nullptr || a.tables.held == nullptr ||
      a.to == nullptr || a.tables.room % 4 != 0)
    return cudaErrorInvalidValue;
  return launch_dependent(describe_adapters_kernel, dim3(a.phases), dim3(lanes), 0, stream, a);
}

}  // namespace orcd::kernels
