#include "gpu/plan/kept_layout.hpp"

namespace orcd::gpu {

kept_layout::kept_layout(const engine::model_spec& spec, std::uint32_t boundaries)
    : layers(spec.layers.size()) {
  const engine::recurrent_spec& of = spec.recurrence;
  const std::uint64_t rows = std::uint64_t{boundaries} * engine::chunk_positions;
  const auto reserve = [&](std::uint64_t values) {
    const std::uint64_t at = slot_values;
    slot_values += (values + 3) / 4 * 4;
    return at;
  };
  for (std::uint32_t i = 0; i < spec.layers.size(); ++i) {
    const engine::mixer_kind kind = spec.layers[i].mixer;
    if (!engine::is_recurrent(kind)) continue;
    recurrent.push_back(i);
    const bool state = engine::has_state(kind);
    kept_layer& at = layers[i];
    at.states = reserve(boundaries * of.state_values(kind));
    at.keys = reserve(state ? rows * of.keys() : 0);
    at.updates = reserve(state ? rows * of.values() : 0);
    at.decays = reserve(state ? rows * of.value_heads : 0);
    at.inputs = reserve(rows * of.conv_channels(kind));
    at.copied = page_values;
    page_values += of.boundary_values(kind);
  }
}

}  // namespace orcd::gpu
