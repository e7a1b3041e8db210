// Where each tensor of a tower lies in VRAM and how it gets there, as weight_layout.hpp has it for models.
// Matrices are packed; F32 ones go as f16, as which the products would read them. Vectors, and the table of
// positions, are f32.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/media/tower.hpp"
#include "gpu/plan/weight_layout.hpp"
#include "kernels/product/packed_matrix.hpp"

namespace orcd::gpu {

struct cuda_tower_matrix {
  kernels::packed_matrix weight;
  const float* bias = nullptr;
  std::optional<engine::value_range> inputs, outputs;
  [[nodiscard]] explicit operator bool() const noexcept { return weight.data != nullptr; }
};

struct cuda_tower_merger {
  const float* norm = nullptr;
  const float* norm_bias = nullptr;
  cuda_tower_matrix first, second;
};

/// As engine::tower_layer has them; pointers into the arena, null where the tower has no such tensor.
struct cuda_tower_layer {
  const float* norm_1 = nullptr;
  const float* norm_1_bias = nullptr;
  const float* norm_2 = nullptr;
  const float* norm_2_bias = nullptr;
  const float* post_norm_1 = nullptr;
  const float* post_norm_2 = nullptr;
  cuda_tower_matrix qkv;
  cuda_tower_matrix q, k, v;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  cuda_tower_matrix out, gate, up, down;
  std::optional<cuda_tower_merger> deepstack;
};

struct cuda_tower_weights {
  cuda_tower_matrix patch;  ///< of a still picture: the sum of both frames' where there are two
  const float* pre_norm = nullptr;
  cuda_tower_matrix conv_1, conv_2;
  const float* positions = nullptr;  ///< f32 rows
  const float* post_norm = nullptr;
  const float* post_norm_bias = nullptr;
  const float* std_bias = nullptr;
  const float* std_scale = nullptr;
  const float* merge_norm = nullptr;  ///< ones where the norm has no weights
  cuda_tower_matrix projection;       ///< its rows are outputs
  cuda_tower_matrix reduction;
  cuda_tower_merger merger;
  const float* pixel_values = nullptr;  ///< [3][256], of pictures
  const float* turn_rates = nullptr;    ///< turn_rates(), where heads are turned
  std::vector<cuda_tower_layer> layers;
};

struct tower_weight_layout {
  cuda_tower_weights weights;        ///< pointers start at the base that was given
  std::vector<weight_piece> pieces;  ///< of the file, and of `made`
  std::deque<std::vector<float>> made;
  std::uint64_t bytes = 0;
};

/// `base` is the arena's address, or 0 when only sizes matter: then nothing is made, and what pieces have to
/// send is not looked at. An error (model_load_failed) names the tensor whose shape no kernel takes.
[[nodiscard]] engine::result<tower_weight_layout> lay_out_tower(const engine::tower& t, std::uintptr_t base);

}  // namespace orcd::gpu
