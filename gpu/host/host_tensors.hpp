// The tensors of a model as the host kernels take them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"
#include "kernels/host/matmul.hpp"

namespace orcd::gpu {

/// Calls `visit` for every tensor that the model has, once per payload (a tied output is not repeated).
void for_each_tensor(const engine::model_weights& weights,
                     const std::function<void(const engine::tensor_view&)>& visit);

/// The same, in the same order, to be bound to other memory.
[[nodiscard]] std::vector<engine::tensor_view*> tensors_of(engine::model_weights& weights);

/// Bytes of all payloads.
[[nodiscard]] std::uint64_t weights_bytes(const engine::model_weights& weights);

/// An error (model_load_failed) when the host kernels cannot run the model: a norm, bias or sink that is
/// not F32, or a size over a kernel's limit.
[[nodiscard]] engine::result<void> check_host_support(const engine::model& m);

/// The matrix of a tensor, or of one expert of stacked ones.
[[nodiscard]] kernels::weight_matrix matrix_of(const engine::tensor_view& tensor, std::uint64_t expert = 0);

/// Whether products of the matrix take int8 activations.
[[nodiscard]] inline bool takes_ints(const engine::tensor_view& tensor) noexcept {
  return tensor && tensor.code_scale.has_value();
}

/// The values of an F32 tensor, or null when the model lacks it.
[[nodiscard]] const float* floats_of(const engine::tensor_view& tensor) noexcept;

}  // namespace orcd::gpu
