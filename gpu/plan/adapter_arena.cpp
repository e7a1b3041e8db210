#include "gpu/plan/adapter_arena.hpp"

#include <algorithm>

#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/decode_program_plan.hpp"
#include "kernels/layer/lora_step.hpp"

namespace orcd::gpu {

adapter_arena::adapter_arena(const engine::model& m, engine::adapter_room room, const adapter_layout& layout,
                             std::uint32_t slot_count, std::uint32_t columns) {
  if (room.count == 0) return;
  std::uint64_t ffn = 0, widest = m.spec.embedding;
  for (const engine::layer_spec& layer : m.spec.layers) {
    const std::uint64_t heads = layer.attended_rows();
    if (layer.ffn == engine::ffn_kind::dense) ffn = std::max<std::uint64_t>(ffn, layer.ffn_size);
    widest = std::max({widest, std::uint64_t{layer.ffn_size}, heads});
  }
  const bool rounds = m.spec.integer_activations;
  const std::uint64_t inner_values =
      std::uint64_t{kernels::lora_matrices_max} * kernels::lora_adapters_max * room.rank_max;
  arena_plan plan;
  values = plan.reserve(room.count * layout.floats() * sizeof(float));
  held = plan.reserve(room.count * layout.places().size() * sizeof(kernels::lora_held));
  slots = plan.reserve(slot_count * sizeof(kernels::lora_slot));
  found = plan.reserve(std::min(columns, adapter_found_columns) * layout.places().size() *
                       kernels::lora_adapters_max * sizeof(kernels::lora_found));
  inner = plan.reserve(columns * inner_values * sizeof(float));
  gate_up = plan.reserve(rounds ? 0 : columns * 2 * ffn * sizeof(float));
  floats = plan.reserve(rounds ? columns * widest * sizeof(float) : 0);
  const std::uint64_t phases = rounds ? 0 : phases_max(m.spec);
  matrices = plan.reserve(phases * sizeof(kernels::phase_matrices));
  pairs = plan.reserve(phases * sizeof(kernels::phase_pairs));
  staging = plan.reserve(adapter_staged_floats * sizeof(float));
  bytes = plan.bytes();
}

}  // namespace orcd::gpu
