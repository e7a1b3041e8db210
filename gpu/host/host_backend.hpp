// The host backend: the model on the CPU with the reference kernels of kernels/host. For development, CI and
// as the oracle of every CUDA kernel; never chosen automatically. Same bits on every CPU, for every number of
// threads, chunk size and batch.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "engine/accelerator.hpp"
#include "gpu/layer_tap.hpp"

namespace orcd::gpu {

struct host_backend_options {
  unsigned threads = 0;             ///< 0 = one per available core
  std::uint32_t chunk_tokens = 16;  ///< prompt tokens per step and sequence, 1..512
  std::uint32_t launch_depth = 1;   ///< more only delays tokens: a step is computed when it is launched
  std::uint64_t kv_bytes_max = 0;   ///< 0 = whatever slots * context needs
  layer_tap tap{};                  ///< unset: costs nothing
  /// Called after each step, before its results are given out, while the weights are read from the mapped
  /// file and not shared: whether they were still intact. An error ends all jobs. Unset: not checked.
  std::function<engine::result<void>()> check_weights{};
};

[[nodiscard]] std::unique_ptr<engine::accelerator> make_host_backend(host_backend_options options = {});

/// What load() would plan with default options, without loading.
[[nodiscard]] engine::memory_plan plan_host_memory(const engine::model& m,
                                                   const engine::accelerator_config& config);

/// The x86 level whose kernels this process uses: "baseline", "v3" or "v4". For logs and benchmarks.
[[nodiscard]] std::string_view host_isa_name();

}  // namespace orcd::gpu
