// The pooled result of each slot's sequence, gathered in the order of positions, so that it does not depend
// on how a prompt was cut into steps. Definition: engine/model/pooling.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

class host_pooling {
 public:
  /// `m` outlives the object.
  host_pooling(const engine::model& m, std::uint32_t slots);

  /// Takes the final states [count][embedding] of the positions from `position` on.
  void add(std::uint32_t slot, std::uint32_t position, std::span<const float> states);
  /// The result of the `tokens` tokens that add() has gathered: every state (none), their mean, one of them
  /// (cls, last), or the classifier's output for one (rank).
  [[nodiscard]] engine::pooled_values take(std::uint32_t slot, std::uint32_t tokens);

 private:
  const engine::model& model_;
  const std::uint32_t width_;
  engine::pooling_kind kind_;
  struct gathered {
    std::vector<double> sums;  ///< mean
    std::vector<float> kept;
  };
  std::vector<gathered> slots_;
};

}  // namespace orcd::gpu
