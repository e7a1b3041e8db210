// What serving a model takes of one GPU, for one engine or a failover pair, and whether a GPU has so much.
// From shapes alone: no GPU is asked. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/accelerator.hpp"
#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::app {

/// What an engine takes beside what the backend allocates: CUDA context and kernels. Measured 337 to 339 MiB
/// on three models (docs/performance.md: less the planned workspace), and some more.
inline constexpr std::uint64_t cuda_context_bytes = std::uint64_t{352} << 20;

struct gpu_plan_request {
  std::uint32_t slots = 1;
  std::uint32_t context = 0;  ///< positions per slot
  engine::kv_types kv{};
  engine::adapter_room adapters{};
  std::uint32_t kv_pages = 0;      ///< of the KV cache; 0 = a context's worth for every slot
  std::uint32_t chunk_tokens = 0;  ///< prompt tokens a step; 0 = as a worker chooses
  engine::boundary_budget boundaries{};
  engine::media_room media{};
  std::uint32_t engines = 1;
  bool shared_weights = false;                ///< one copy, whatever the number of engines
  std::optional<std::uint64_t> vram_bytes{};  ///< of the GPU
};

struct gpu_plan {
  std::uint32_t engines = 1;
  std::uint32_t copies = 1;         ///< of the weights
  std::uint64_t weights_bytes = 0;  ///< of one copy
  std::uint64_t kv_bytes = 0;       ///< of one engine, as the rest
  engine::kv_geometry kv{};
  std::uint64_t logits_bytes = 0;
  std::uint64_t adapters_bytes = 0;
  std::uint64_t media_bytes = 0;   ///< the projector's weights, rows of media, and what encoding needs
  std::uint64_t drafts_bytes = 0;  ///< unless the worker runs with --speculate off
  std::uint64_t states_bytes = 0;  ///< what layers without attention keep of the slots' sequences
  std::uint64_t workspace_bytes = 0;
  std::uint64_t context_bytes = 0;
  std::uint64_t reserve_bytes = 0;   ///< that a worker leaves free when it loads
  std::uint64_t required_bytes = 0;  ///< of all engines
  std::optional<std::uint64_t> vram_bytes{};
  std::string device{};  ///< the GPU's name, where it was asked
  /// The most positions per slot that fit with so many slots, up to the model's own; 0: not even one page.
  std::optional<std::uint32_t> context_max{};
  /// The most positions of an engine's whole KV cache that fit beside such a context; 0: not even one page.
  std::optional<std::uint64_t> kv_tokens_max{};

  /// Nullopt where no GPU was given.
  [[nodiscard]] std::optional<bool> fits() const noexcept {
    if (!vram_bytes) return std::nullopt;
    return required_bytes <= *vram_bytes;
  }
};

/// Errors: model_load_failed, of a model or a tensor that no kernel takes.
[[nodiscard]] engine::result<gpu_plan> plan_gpu(const engine::model& m, const gpu_plan_request& request);

}  // namespace orcd::app
