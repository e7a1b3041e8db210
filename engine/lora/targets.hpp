// Which of a model's matrices a pair is beside, by the names that adapters' files have for them. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::engine {

/// Where a pair stands; places are in the order of lora_adapter::pairs.
struct pair_place {
  std::uint32_t layer = 0;
  lora_target target{};

  friend auto operator<=>(const pair_place&, const pair_place&) = default;
};

/// The model's matrix there, nullptr when it has none. `output` of tied weights is the embedding's matrix;
/// of a model that generates nothing there is none.
[[nodiscard]] const tensor_view* matrix_at(const model& base, const pair_place& place) noexcept;

/// Of a matrix, for people: "blk.3.attn_q", as the model's file names its tensor.
[[nodiscard]] std::string matrix_name(const pair_place& place);

/// The place of a GGUF tensor, such as "blk.3.attn_q.weight". Errors name `file`, the tensor and why there is
/// no pair beside it: unknown, not in this model, fused there or not, of experts.
[[nodiscard]] result<pair_place> place_of_tensor(const model& base, std::string_view name,
                                                 std::string_view file);

/// The same for a module's path as PyTorch programs have it, such as "model.layers.3.self_attn.q_proj".
[[nodiscard]] result<pair_place> place_of_module(const model& base, std::string_view module,
                                                 std::string_view file);

}  // namespace orcd::engine
