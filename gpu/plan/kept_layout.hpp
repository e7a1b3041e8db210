// Where lies what layers with other mixers than attention keep: of a slot's sequence, and at a boundary in a
// page of the group of states. In floats; a part begins at a multiple of four. Both backends. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// Of one layer, from the beginning of a slot; of attention nothing.
struct kept_layer {
  std::uint64_t states = 0;   ///< [boundaries][value heads][value_length][key_length]
  std::uint64_t keys = 0;     ///< [rows][key heads][key_length]
  std::uint64_t updates = 0;  ///< [rows][value heads][value_length]
  std::uint64_t decays = 0;   ///< [rows][value heads]
  std::uint64_t inputs = 0;   ///< [rows][channels] of the convolution
  std::uint64_t copied = 0;   ///< in a page: a state, then rows of the convolution
};

struct kept_layout {
  /// Of a state so many boundaries are kept, of everything else the rows of as many chunks.
  kept_layout(const engine::model_spec& spec, std::uint32_t boundaries);

  std::vector<kept_layer> layers;        ///< of the model
  std::vector<std::uint32_t> recurrent;  ///< indices of those that keep something
  std::uint64_t slot_values = 0;
  std::uint64_t page_values = 0;
};

/// Boundaries that are kept: a step of a token and its drafts crosses two at most, and the next one may go
/// back before both.
[[nodiscard]] constexpr std::uint32_t kept_boundaries(std::uint32_t draft_tokens) noexcept {
  return draft_tokens > 0 ? 3 : 2;
}

}  // namespace orcd::gpu
