#include "gpu/plan/adapter_layout.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/permanent.hpp"
#include "engine/lora/targets.hpp"
#include "kernels/layer/lora_args.hpp"

namespace orcd::gpu {
namespace {

using engine::lora_target;

constexpr std::size_t targets = engine::lora_targets;

engine::error refused(const std::string& why) {
  return {engine::errc::model_load_failed, "the LoRA adapter " + why};
}

std::string shape_of(std::uint64_t in, std::uint64_t out) {
  return std::to_string(out) + " x " + std::to_string(in);
}

/// Whether `count` floats from `at` on are among the adapter's values.
bool has(const engine::lora_adapter& adapter, std::uint64_t at, std::uint64_t count) {
  return at <= adapter.values.size() && count <= adapter.values.size() - at;
}

}  // namespace

engine::result<void> check_adapter_room(const engine::model& m, engine::adapter_room room) {
  if (room.count == 0) return {};
  if (m.spec.pooling) return refused("has no place: models of embeddings and ranking take none");
  if (m.spec.latent) {
    return made_permanent(refused("has no place: models with latent attention take none"));
  }
  if (room.rank_max == 0) return refused("has no place: its highest rank is 0, at least 1 is needed");
  return {};
}

adapter_layout::adapter_layout(const engine::model& m, engine::adapter_room room) : room_(room) {
  if (room.count == 0) return;
  place_of_.assign(std::max<std::size_t>(1, m.weights.layers.size()) * targets, -1);
  const auto layers = static_cast<std::uint32_t>(m.weights.layers.size());
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    for (std::size_t i = 0; i < targets; ++i) {
      const auto target = static_cast<lora_target>(i);
      if (!engine::is_of_layer(target)) continue;
      add(engine::matrix_at(m, {layer, target}), target, layer);
    }
  }
  add(engine::matrix_at(m, {0, lora_target::output}), lora_target::output, 0);
  add(engine::matrix_at(m, {0, lora_target::token_embd}), lora_target::token_embd, 0);
}

void adapter_layout::add(const engine::tensor_view* matrix, lora_target target, std::uint32_t layer) {
  if (matrix == nullptr) return;
  adapter_place place{target, layer, static_cast<std::uint32_t>(matrix->cols()),
                      static_cast<std::uint32_t>(matrix->rows())};
  // A token's row of the embedding is a column of A.
  if (target == lora_target::token_embd) std::swap(place.in, place.out);
  place.a_at = floats_;
  place.b_at = place.a_at + room_.rank_max * kernels::lora_stride(place.in);
  floats_ = place.b_at + room_.rank_max * kernels::lora_stride(place.out);
  place_of_[layer * targets + static_cast<std::size_t>(target)] = static_cast<std::int32_t>(places_.size());
  places_.push_back(place);
}

std::int32_t adapter_layout::find(lora_target target, std::uint32_t layer) const noexcept {
  const std::size_t at = std::size_t{layer} * targets + static_cast<std::size_t>(target);
  return at < place_of_.size() ? place_of_[at] : -1;
}

engine::result<void> adapter_layout::check(std::uint32_t index, const engine::lora_adapter& adapter) const {
  if (index >= room_.count) {
    return refused("cannot be number " + std::to_string(index) + ": there is room for " +
                   std::to_string(room_.count));
  }
  std::vector<bool> seen(places_.size());
  for (const engine::lora_pair& pair : adapter.pairs) {
    const std::int32_t at = find(pair.target, pair.layer);
    const std::string name = engine::matrix_name({pair.layer, pair.target});
    if (at < 0) return refused("changes " + name + ", which this model has not");
    const adapter_place& place = places_[static_cast<std::size_t>(at)];
    if (seen[static_cast<std::size_t>(at)]) return refused("has " + name + " twice");
    seen[static_cast<std::size_t>(at)] = true;
    if (pair.in != place.in || pair.out != place.out) {
      return refused("has " + shape_of(pair.in, pair.out) + " for " + name + ", which is " +
                     shape_of(place.in, place.out));
    }
    if (pair.rank == 0 || pair.rank > room_.rank_max) {
      return refused("has rank " + std::to_string(pair.rank) + " at " + name + ", there is room for 1 to " +
                     std::to_string(room_.rank_max));
    }
    if (!std::isfinite(pair.scale)) return refused("has a scale at " + name + " that is not finite");
    if (!has(adapter, pair.a_at, std::uint64_t{pair.rank} * pair.in) ||
        !has(adapter, pair.b_at, std::uint64_t{pair.rank} * pair.out)) {
      return refused("lacks values of " + name);
    }
  }
  return {};
}

}  // namespace orcd::gpu
