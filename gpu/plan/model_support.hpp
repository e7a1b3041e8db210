// What of a model's spec the CUDA backend's ways of running a layer take. Decisions over the spec alone.
#pragma once

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// Whether norms of single heads of Q and K, where the model has some, are others than RMS norms with the
/// same weights for every head, which the kernels of rotation have.
[[nodiscard]] bool has_other_head_norms(const engine::model_spec& spec) noexcept;

/// Whether a model has experts and dense feed-forwards whose activations are of different widths.
[[nodiscard]] bool has_experts_apart(const engine::model_spec& spec) noexcept;

/// Whether all layers are made of what the decode program has: RMS norms before both halves, SwiGLU or
/// experts chosen by softmax, norms of single heads, rotation or none. Other models run many kernels, some
/// more of them.
[[nodiscard]] bool has_plain_layers(const engine::model_spec& spec) noexcept;

/// The same of models with integer activations, whose layers are dense and may have a squared ReLU.
[[nodiscard]] bool has_plain_ternary_layers(const engine::model_spec& spec) noexcept;

/// Whether logits are used as the output product leaves them, as the decode program's head does.
[[nodiscard]] bool has_plain_head(const engine::model_spec& spec) noexcept;

/// Whether a decode step of one sequence may be one kernel. Where the widest phase finds too little shared
/// memory, it is many after all (decode_program_plan::fits).
[[nodiscard]] bool program_fits(const engine::model_spec& spec) noexcept;

/// model_load_failed, saying what no kernel takes: widths of heads, activations, mixtures of widths.
[[nodiscard]] engine::result<void> check_cuda_support(const engine::model_spec& spec);

}  // namespace orcd::gpu
