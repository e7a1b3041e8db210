// Scans of layers with a state, a block for some values of a head of a run (scan_block.cuh).
#include <cuda_runtime.h>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/recurrent/recurrent_layer.hpp"
#include "kernels/recurrent/scan_block.cuh"

namespace orcd::kernels {
namespace {

/// Of a pass of short runs a block may find its own: it begins at a column that begins one.
__device__ device_run run_of(const recurrent_pass& pass, std::uint32_t index) {
  if (!pass.short_runs)
    return static_cast<std::int32_t>(index) < *pass.run_count ? pass.runs[index] : device_run{};
  const step_token& first = pass.steps[index];
  if (index > 0 && pass.steps[index - 1].slot == first.slot) return {};
  device_run run{static_cast<std::int32_t>(index), 1, first.position, first.slot};
  while (index + run.count < pass.columns && pass.steps[index + run.count].slot == first.slot) ++run.count;
  return run;
}

/// grid: (runs, value heads, parts of a head's values).
template <std::uint32_t Keys>
__global__ void __launch_bounds__(scan_threads) scan_kernel(const __grid_constant__ scan_args a) {
  extern __shared__ float4 memory[];
  __shared__ chunk_weights weights;
  wait_for_previous_kernel();
  allow_next_kernel();
  const device_run run = run_of(a.pass, blockIdx.x);
  if (run.count == 0) return;
  scan_block<Keys>(a, run, reinterpret_cast<staged_chunk<Keys>*>(memory), weights).walk();
}

template <std::uint32_t Keys>
int launch(const scan_args& a, CUstream_st* stream) {
  constexpr std::size_t bytes = stages * sizeof(staged_chunk<Keys>);
  static_assert(bytes <= 48 * 1024);
  const std::uint32_t runs = a.pass.short_runs ? a.pass.columns : a.pass.runs_max;
  const dim3 grid(runs, a.value_heads, (a.value_length + block_values - 1) / block_values);
  return launch_dependent(scan_kernel<Keys>, grid, dim3(scan_threads), bytes, stream, a);
}

}  // namespace

int launch_scan(const scan_args& a, CUstream_st* stream) {
  const bool complete = a.pass.steps != nullptr && a.pass.wanted != nullptr && a.pass.columns > 0 &&
                        (a.pass.short_runs || a.pass.runs_max > 0) && a.kept.slots != nullptr &&
                        a.kept.rows == a.kept.state_count * chunk_rows && a.kept.state_count >= 2;
  const bool aligned = a.stride % 4 == 0 && a.key_length % 4 == 0 && a.kept.slot_stride % 4 == 0 &&
                       a.kept.states % 4 == 0 && a.kept.keys % 4 == 0;
  if (!complete || !aligned || a.key_heads == 0 || a.value_heads % a.key_heads != 0)
    return cudaErrorInvalidValue;
  if (a.key_length <= 32) return launch<32>(a, stream);
  if (a.key_length <= 64) return launch<64>(a, stream);
  if (a.key_length <= 128) return launch<128>(a, stream);
  if (a.key_length <= device_key_length_max) return launch<device_key_length_max>(a, stream);
  return cudaErrorInvalidValue;
}

}  // namespace orcd::kernels
