// What lists of a model's tensors and metadata are made with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bench/synth/model_shapes.hpp"

namespace orcd::bench {

/// The layers to which the Q4_K_M mixture gives more bits: the first and last eighth, and every third
/// between.
[[nodiscard]] constexpr bool more_bits(std::uint64_t layer, std::uint64_t layers) noexcept {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

class tensor_list {
 protected:
  explicit tensor_list(std::string architecture) : architecture_(std::move(architecture)) {}

  template <class T>
  void key(const std::string& name, T value) {
    out_.header.add(architecture_ + "." + name, value);
  }
  void number(const std::string& name, std::uint64_t value) { key(name, static_cast<std::uint32_t>(value)); }

  /// Names of linear() begin with that of the layer from now on.
  void begin_layer(std::uint64_t layer) { prefix_ = "blk." + std::to_string(layer) + "."; }
  void linear(const std::string& name, std::uint64_t cols, std::uint64_t rows, engine::ggml_type type) {
    matrix(prefix_ + name + ".weight", {cols, rows}, type);
  }
  void matrix(std::string name, std::vector<std::uint64_t> extents, engine::ggml_type type) {
    out_.tensors.push_back({std::move(name), std::move(extents), type, 0.0F, weight_spread});
  }
  void vector(std::string name, std::vector<std::uint64_t> extents, float centre) {
    out_.tensors.push_back(
        {std::move(name), std::move(extents), engine::ggml_type::f32, centre, bias_spread});
  }

  planned_model out_;
  std::string prefix_;

 private:
  /// Weights of this size keep activations finite at every width of the models.
  static constexpr float weight_spread = 0.02F;
  static constexpr float bias_spread = 0.1F;

  std::string architecture_;
};

}  // namespace orcd::bench
