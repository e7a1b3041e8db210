// All VRAM that a worker takes, known before anything is allocated, and whether a GPU has so much. Arithmetic
// only; sizes that overflow saturate, so that an absurd configuration is refused and does not wrap around.
// Source: M0-W-1011, M0-W-1020, M0-W-1021.
#pragma once

#include <cstdint>

#include "engine/accelerator.hpp"
#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/plan/device_choice.hpp"

namespace orcd::gpu {

/// A layer's part of a page of 256 positions, with heads padded as kernels take them.
[[nodiscard]] std::uint64_t kv_layer_page_bytes(const engine::model_spec& spec,
                                                const engine::layer_spec& layer,
                                                engine::kv_types types) noexcept;
/// Of all layers, where they are one group.
[[nodiscard]] std::uint64_t kv_page_bytes(const engine::model_spec& spec,
                                          engine::kv_types types = {}) noexcept;
[[nodiscard]] std::uint64_t planned_kv_bytes(const engine::model_spec& spec, std::uint32_t slots,
                                             std::uint32_t context, engine::kv_types types = {}) noexcept;
/// The keys' or the values' part of a page of one layer.
[[nodiscard]] std::uint64_t kv_half_page_bytes(engine::kv_type type, std::uint32_t kv_heads,
                                               std::uint32_t width) noexcept;

struct device_plan_request {
  std::uint32_t slots = 1;
  std::uint32_t context = 0;          ///< positions per slot
  std::uint64_t workspace_bytes = 0;  ///< as the forward pass reports it, without logits
  std::uint64_t kv_bytes_max = 0;     ///< 0 = whatever slots and context need
  engine::kv_types kv{};
  std::uint64_t kv_bytes = 0;  ///< of the KV cache; 0 = a context's worth of all layers for every slot
  std::uint64_t adapters_bytes = 0;
};

/// Errors: model_load_failed (lay_out_weights), insufficient_vram when the KV cache is over its limit.
[[nodiscard]] engine::result<engine::memory_plan> plan_device_memory(const engine::model& m,
                                                                     const device_plan_request& request);

struct vram_supply {
  std::uint64_t free_bytes = 0;  ///< with the context in place
  std::uint64_t total_bytes = 0;
  gpu_info gpu;
};

/// What a worker leaves free for the driver: kernel images, graphs, and rounding of arenas to 2 MiB.
inline constexpr std::uint64_t driver_reserve_bytes = std::uint64_t{128} << 20;

/// An error (insufficient_vram) with the required and available bytes by class and the GPU, unless the
/// plan, `staging_bytes` of the upload and the driver's reserve fit together.
[[nodiscard]] engine::result<void> check_vram(const engine::memory_plan& plan, std::uint64_t staging_bytes,
                                              const vram_supply& supply);

}  // namespace orcd::gpu
