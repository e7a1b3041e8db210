// Scans of layers with a state, a block for some values of a head of a run (scan_block.cuh).
#include <cuda_runtime.h>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/recurrent/recurrent_layer.hpp"
#include "kernels/recurrent/scan_block.cuh"

namespace orcd::kernels {
namespace {

/// Of a pass of short runs a block finds its own: it begins at a column that begins one.
__device__ device_run short_run(const recurrent_pass& pass, std::uint32_t index) {
  const step_token first = pass.steps[index];
  if (index > 0 && pass.steps[index - 1].slot == first.slot) return {};
  device_run run{static_cast<std::int32_t>(index), 1, first.position, first.slot};
  while (index + run.count < pass.columns && pass.steps[index + run.count].slot == first.slot) ++run.count;
  return run;
}
__device__ device_run listed_run(const recurrent_pass& pass, std::uint32_t index) {
  return static_cast<std::int32_t>(index) < *pass.run_count ? pass.runs[index] : device_run{};
}

/// grid: (runs, value heads, parts of a head's values). The kernel right before it makes this step's rows;
/// which runs there are and what is kept of them was written before that one began.
template <std::uint32_t Keys, bool Delta, bool Short>
__global__ void __launch_bounds__(scan_block<Keys, Delta, Short>::threads,
                                  scan_block<Keys, Delta, Short>::blocks)
    scan_kernel(const __grid_constant__ scan_args a) {
  extern __shared__ float4 memory[];
  const device_run run = Short ? short_run(a.pass, blockIdx.x) : listed_run(a.pass, blockIdx.x);
  scan_block<Keys, Delta, Short> block(a, run, *reinterpret_cast<scan_memory<Keys>*>(memory));
  if (run.count > 0) block.begin();
  wait_for_previous_kernel();
  allow_next_kernel();
  if (run.count > 0) block.walk();
}

template <std::uint32_t Keys, bool Delta, bool Short>
int launch(const scan_args& a, CUstream_st* stream) {
  static_assert(sizeof(scan_memory<Keys>) <= 48 * 1024);
  const std::uint32_t runs = Short ? a.pass.columns : a.pass.runs_max;
  const dim3 grid(runs, a.value_heads, (a.value_length + block_values - 1) / block_values);
  return launch_dependent(scan_kernel<Keys, Delta, Short>, grid,
                          dim3(scan_block<Keys, Delta, Short>::threads), sizeof(scan_memory<Keys>), stream,
                          a);
}

template <std::uint32_t Keys>
int launch_keys(const scan_args& a, CUstream_st* stream) {
  if (a.pass.short_runs)
    return a.delta_net ? launch<Keys, true, true>(a, stream) : launch<Keys, false, true>(a, stream);
  return a.delta_net ? launch<Keys, true, false>(a, stream) : launch<Keys, false, false>(a, stream);
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
  if (a.key_length <= 64) return launch_keys<64>(a, stream);
  if (a.key_length <= 128) return launch_keys<128>(a, stream);
  if (a.key_length <= device_key_length_max) return launch_keys<device_key_length_max>(a, stream);
  return cudaErrorInvalidValue;
}

}  // namespace orcd::kernels
