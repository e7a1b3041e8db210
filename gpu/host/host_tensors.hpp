// The tensors of a model as the host kernels take them.
#pragma once

#include <cstdint>

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/plan/tensor_matrix.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/matmul.hpp"

namespace orcd::gpu {

/// An error (model_load_failed) when the host kernels cannot run the model: a norm, bias or sink that is
/// not F32, or a size over a kernel's limit.
[[nodiscard]] engine::result<void> check_host_support(const engine::model& m);

/// Whether products of the matrix take int8 activations.
[[nodiscard]] inline bool takes_ints(const engine::tensor_view& tensor) noexcept {
  return tensor && tensor.code_scale.has_value();
}

/// Of an activation without a gate.
[[nodiscard]] constexpr kernels::gelu_form gelu_form_of(engine::ffn_activation activation) noexcept {
  return activation == engine::ffn_activation::gelu_tanh      ? kernels::gelu_form::tanh
         : activation == engine::ffn_activation::gelu_sigmoid ? kernels::gelu_form::sigmoid
                                                              : kernels::gelu_form::exact;
}

/// The values of an F32 tensor, or null when the model lacks it.
[[nodiscard]] const float* floats_of(const engine::tensor_view& tensor) noexcept;

}  // namespace orcd::gpu
