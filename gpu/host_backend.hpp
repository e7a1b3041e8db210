// The host backend: the model on the CPU with the kernels/host references. For development, CI and
// as the oracle of every CUDA kernel; never chosen automatically (design 4). Same bits on every CPU,
// for every number of threads, chunk size and batch.
#pragma once

#include "engine/accelerator.hpp"

#include <memory>

namespace orcd::gpu {

struct host_backend_options {
  unsigned threads = 0;               ///< 0 = one per available core
  std::uint32_t chunk_tokens = 16;    ///< prompt tokens per step and sequence
  std::uint64_t kv_bytes_max = 0;     ///< 0 = whatever slots * context needs
};

[[nodiscard]] std::unique_ptr<engine::accelerator> make_host_backend(host_backend_options options = {});

/// What load() would plan, without loading.
[[nodiscard]] engine::memory_plan plan_host_memory(const engine::model& m, const engine::accelerator_config& config);

}  // namespace orcd::gpu
