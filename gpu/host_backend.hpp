// The host backend: the model on the CPU with the kernels/host references. For development, CI and
// as the oracle of every CUDA kernel; never chosen automatically (design 4). Same bits on every CPU,
// for every number of threads, chunk size and batch.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "engine/accelerator.hpp"

namespace orcd::gpu {

/// Called on the thread of step() with named intermediate values: `layer` is the layer's index (0 for
/// "embedding"; the number of layers for "output_norm" and "logits"), `values` all tokens of the step, one
/// after another. For tests that compare implementations layer by layer. The names are listed in
/// host_forward.cpp.
using layer_tap =
    std::function<void(std::string_view name, std::uint32_t layer, std::span<const float> values)>;

struct host_backend_options {
  unsigned threads = 0;             ///< 0 = one per available core
  std::uint32_t chunk_tokens = 16;  ///< prompt tokens per step and sequence, 1..512
  std::uint64_t kv_bytes_max = 0;   ///< 0 = whatever slots * context needs
  layer_tap tap{};                  ///< unset: costs nothing
};

[[nodiscard]] std::unique_ptr<engine::accelerator> make_host_backend(host_backend_options options = {});

/// What load() would plan with default options, without loading.
[[nodiscard]] engine::memory_plan plan_host_memory(const engine::model& m,
                                                   const engine::accelerator_config& config);

/// The x86 level whose kernels this process uses: "baseline", "v3" or "v4". For logs and benchmarks.
[[nodiscard]] std::string_view host_isa_name();

}  // namespace orcd::gpu
