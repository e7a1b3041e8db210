// y[m] += strength * scale * B (A x[m]) for columns whose slots have LoRA adapters, after the product that y
// comes from, for all matrices that read the same x: one kernel, or one for A and one for B. Which adapters a
// slot has lies in device memory, so that columns of different slots share a launch.
//
// x must be older than the kernel right before the launch, which is the product: where columns are of several
// slots, A x is made while the product runs.
//
// Determinism class: run-to-run, batch-invariant, launch-invariant. f32 throughout. A x: thread t of 128
// takes the values 4 t to 4 t + 3 of every 512, fused multiply-adds in ascending order; the lanes of a warp
// are folded in a fixed tree, the four warps left to right. B takes its sum in the order of ranks; adapters
// are added in the slot's order, each product and sum rounded. Error against f64: that of such sums. Bound:
// latency, then memory bandwidth.
#pragma once

#include "kernels/layer/lora_step.hpp"

struct CUstream_st;

namespace orcd::kernels {

/// Return the cudaError_t of the launch as an int (0 is success); never synchronize.
[[nodiscard]] int launch_lora(const lora_add_args& args, CUstream_st* stream, const lora_sequel& sequel = {});

[[nodiscard]] int launch_lora_find(const lora_find_args& args, CUstream_st* stream);

[[nodiscard]] int launch_lora_store(const lora_store_args& args, CUstream_st* stream);

/// Loads the kernels' code, which would otherwise take memory and time at the first launch.
[[nodiscard]] int load_lora_kernels();

}  // namespace orcd::kernels
