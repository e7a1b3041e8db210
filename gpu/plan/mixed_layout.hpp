// Where lie a token's values in the rows that a recurrent layer's products leave on the device, and what
// becomes of them there. In floats. Pure.
#pragma once

#include <cstdint>

#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

struct mixed_layout {
  mixed_layout(const engine::recurrent_spec& of, engine::mixer_kind kind);
  /// Of the layer with the widest rows; 0: there is no recurrent one.
  [[nodiscard]] static std::uint32_t widest(const engine::model_spec& spec);

  std::uint32_t in = 0;         ///< of the convolution; what the heads give lies there afterwards
  std::uint32_t gate = 0;       ///< of what the heads give
  std::uint32_t beta = 0;       ///< of a delta net
  std::uint32_t decay = 0;      ///< Mamba-2: dt
  std::uint32_t convolved = 0;  ///< of short convolutions there is none
  std::uint32_t queries = 0, keys = 0, values = 0;  ///< from `convolved` on
  std::uint32_t width = 0;                          ///< of a row, a multiple of four
};

}  // namespace orcd::gpu
