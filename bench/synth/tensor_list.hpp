// What lists of a model's tensors and metadata are made with.
#pragma once

#include <cstdint>
#include <optional>
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

/// Layers of a model that is made: the choice's, or the model's own. Errors: invalid_request outside 1..512.
[[nodiscard]] inline engine::result<std::uint64_t> layers_of(const model_choice& choice, std::uint64_t own) {
  const std::uint64_t layers = choice.layers ? *choice.layers : own;
  if (layers >= 1 && layers <= 512) return layers;
  return engine::error(engine::errc::invalid_request,
                       "--layers is " + std::to_string(layers) + "; it must be 1 to 512");
}

/// The model of `shapes` that is asked for, by a Planner of its shape, layers and words; none where they lack
/// it.
template <class Planner, class Shapes>
[[nodiscard]] std::optional<engine::result<planned_model>> plan_of(const Shapes& shapes,
                                                                   const model_choice& choice) {
  for (const auto& s : shapes) {
    if (choice.model != s.name) continue;
    const auto layers = layers_of(choice, s.layers);
    if (!layers) return layers.error();
    return Planner(s, *layers, choice.vocab.value_or(static_cast<std::uint32_t>(s.vocab))).plan();
  }
  return std::nullopt;
}

/// As a message lists them.
template <class Shapes>
[[nodiscard]] std::string names_of(const Shapes& shapes) {
  std::string out;
  for (const auto& s : shapes) out += std::string(out.empty() ? "" : ", ") + s.name;
  return out;
}

class tensor_list {
 protected:
  explicit tensor_list(std::string architecture) : architecture_(std::move(architecture)) {}

  template <class T>
  void key(const std::string& name, T value) {
    out_.header.add(architecture_ + "." + name, value);
  }
  void number(const std::string& name, std::uint64_t value) { key(name, static_cast<std::uint32_t>(value)); }

  /// The keys that every file begins with.
  template <class Shape>
  void add_first_keys(const Shape& s, std::uint64_t layers, std::uint32_t file_type) {
    out_.header.add("general.architecture", architecture_);
    out_.header.add("general.name", std::string(s.name) + " with random weights");
    out_.header.add("general.file_type", file_type);
    out_.header.add("general.quantization_version", std::uint32_t{2});
    number("block_count", layers);
    number("context_length", s.context);
    number("embedding_length", s.embedding);
  }
  /// These, and those of a model whose layers are all alike.
  template <class Shape>
  void add_common_keys(const Shape& s, std::uint64_t layers, std::uint32_t file_type) {
    add_first_keys(s, layers, file_type);
    number("feed_forward_length", s.ffn);
    number("attention.head_count", s.heads);
    number("attention.head_count_kv", s.kv_heads);
    key("attention.layer_norm_rms_epsilon", s.rms_eps);
    key("rope.freq_base", s.rope_base);
  }

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
