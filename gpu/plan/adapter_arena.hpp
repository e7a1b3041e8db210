// What LoRA adapters take of a GPU, and where each part lies in their arena: the values, the table of what
// each slot's sequence has, and what steps with adapters compute in. Planned from shapes alone, so that a
// plan without a GPU counts what the backend allocates. Pure.
#pragma once

#include <cstdint>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/plan/adapter_layout.hpp"

namespace orcd::gpu {

/// Adapters are copied in pieces of at most so many values.
inline constexpr std::uint64_t adapter_staged_floats = 128U << 10U;

/// Passes of more columns look up their adapters at every product.
inline constexpr std::uint32_t adapter_found_columns = 16;

/// Offsets in bytes.
struct adapter_arena {
  adapter_arena() = default;  ///< without room: all 0
  /// `columns`: tokens of the largest step.
  adapter_arena(const engine::model& m, engine::adapter_room room, const adapter_layout& layout,
                std::uint32_t slots, std::uint32_t columns);

  std::uint64_t values = 0;  ///< f32, [room.count][layout.floats()]
  std::uint64_t held = 0;    ///< kernels::lora_held, [room.count][places]
  std::uint64_t slots = 0;   ///< kernels::lora_slot, [slots]
  std::uint64_t found = 0;  ///< kernels::lora_found, [up to adapter_found_columns][places][lora_adapters_max]
  std::uint64_t inner = 0;  ///< f32, [columns][lora_matrices_max][lora_adapters_max][rank_max]: A x
  std::uint64_t gate_up = 0;   ///< f32, [columns][2 * ffn], of models whose products activate them
  std::uint64_t floats = 0;    ///< f32, [columns][widest], of models whose products read integers
  std::uint64_t matrices = 0;  ///< kernels::phase_matrices, of each phase of a decode program
  std::uint64_t pairs = 0;     ///< kernels::phase_pairs, likewise
  std::uint64_t staging = 0;   ///< f32, [adapter_staged_floats], of matrices on their way to their places
  std::uint64_t bytes = 0;
};

}  // namespace orcd::gpu
