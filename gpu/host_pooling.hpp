// The pooled answer of each slot's sequence, gathered token by token in the order of positions, so that it
// does not depend on how a prompt was cut into steps. Source: engine/model/pooling.hpp.
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
  host_pooling(const engine::model_spec& spec, std::uint32_t slots);

  /// Takes the final states [count][embedding] of the positions from `position` on.
  void add(std::uint32_t slot, std::uint32_t position, std::span<const float> states);
  /// What add() has gathered of `tokens` tokens: every state (none), their mean, or one of them (cls, last,
  /// and for rank what the classifier reads).
  [[nodiscard]] std::vector<float> take(std::uint32_t slot, std::uint32_t tokens);

 private:
  const std::uint32_t width_;
  engine::pooling_kind kind_;
  struct gathered {
    std::vector<double> sums;  ///< mean
    std::vector<float> kept;
  };
  std::vector<gathered> slots_;
};

/// What the classifier of a ranking model says about one state: [classes]. tanh is portable_tanh.
void classify_state(const engine::model& m, std::span<const float> state, std::span<float> out);

}  // namespace orcd::gpu
