// The CUDA backend: the model in VRAM, the forward pass as kernels, decode steps as one kernel or a replayed
// graph. The default backend. GPU thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/accelerator.hpp"
#include "gpu/cuda/cuda_device.hpp"
#include "gpu/layer_tap.hpp"
#include "gpu/memory/residency_audit.hpp"
#include "gpu/plan/device_memory_plan.hpp"

namespace orcd::gpu {

struct cuda_backend_options {
  gpu_choice gpu{};
  device_end end = device_end::reset;  ///< keep: the context is left for what runs after (tests)
  std::uint32_t chunk_tokens = 0;      ///< step_choices::chunk_tokens
  std::uint64_t kv_bytes_max = 0;      ///< 0 = whatever slots * context needs
  bool pinned = true;                  ///< false: no pinned staging while loading
  bool graphs = true;                  ///< false: every kernel launched by itself (debugging)
  /// Most sequences of a decode step that is one kernel; unset: as many as it is faster for.
  std::optional<std::uint32_t> one_kernel{};
  bool keep_logits = false;  ///< copy every sampled row to the host for logits(); tests
  layer_tap tap{};           ///< unset: costs nothing; set: no graphs
  wait_policy wait{};        ///< how long to wait for a GPU
  wait_clock clock{};        ///< unset: real_wait_clock()
  pointer_probe probe{};     ///< unset: cuda_pointer_probe(); tests report faults with it
};

/// The UUID of the GPU that load() will use, "GPU-..." also of a part of one; waits as load() does. Makes no
/// context and takes no memory of the GPU. Any thread.
[[nodiscard]] engine::result<std::string> find_gpu_uuid(const cuda_backend_options& options);

[[nodiscard]] std::unique_ptr<engine::accelerator> make_cuda_backend(const cuda_backend_options& options);

}  // namespace orcd::gpu
