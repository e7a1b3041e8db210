#include "gpu/plan/mixed_layout.hpp"

#include <algorithm>

namespace orcd::gpu {
namespace {

constexpr std::uint32_t aligned(std::uint32_t values) noexcept {
  return (values + 3) / 4 * 4;
}

}  // namespace

mixed_layout::mixed_layout(const engine::recurrent_spec& of, engine::mixer_kind kind) {
  const std::uint32_t channels = of.conv_channels(kind);
  if (kind == engine::mixer_kind::short_conv) {
    width = aligned(of.input_rows(kind));
    return;
  }
  if (kind == engine::mixer_kind::mamba2) {
    in = of.values();
    decay = in + channels;
    convolved = aligned(decay + of.value_heads);
    keys = of.values();
    queries = keys + of.keys();
  } else {
    gate = channels;
    beta = gate + of.values();
    decay = of.joint_beta_decay ? beta : beta + of.value_heads;
    convolved = aligned(beta + 2 * of.value_heads);
    keys = of.keys();
    values = 2 * of.keys();
  }
  width = aligned(convolved + channels);
}

std::uint32_t mixed_layout::widest(const engine::model_spec& spec) {
  std::uint32_t out = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    if (engine::is_recurrent(layer.mixer))
      out = std::max(out, mixed_layout(spec.recurrence, layer.mixer).width);
  }
  return out;
}

}  // namespace orcd::gpu
