#include "gpu/host/host_tensors.hpp"

#include <string>

#include "engine/model/model_tensors.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/moe.hpp"
#include "kernels/host/recurrent.hpp"

namespace orcd::gpu {
namespace {

using engine::layer_weights;
using engine::tensor_view;

engine::result<void> check_vector(const tensor_view& tensor) {
  if (!tensor || tensor.type == engine::ggml_type::f32) return {};
  return engine::error(engine::errc::model_load_failed, "tensor " + std::string(tensor.name) + " has type " +
                                                            std::string(engine::traits_of(tensor.type).name) +
                                                            ", the host backend needs F32");
}

engine::result<void> check_limit(const char* what, std::uint64_t value, std::uint64_t limit) {
  if (value <= limit) return {};
  return engine::error(engine::errc::model_load_failed, std::string(what) + " is " + std::to_string(value) +
                                                            ", the host backend's limit is " +
                                                            std::to_string(limit));
}

}  // namespace

engine::result<void> check_host_support(const engine::model& m) {
  for (const engine::layer_spec& layer : m.spec.layers) {
    const auto width = check_limit("the head dimension", std::max(layer.key_length, layer.value_length),
                                   kernels::attention_head_width_max);
    if (!width) return width;
  }
  const engine::recurrent_spec& recurrence = m.spec.recurrence;
  const auto state =
      check_limit("the width of a state", std::max(recurrence.key_length, recurrence.value_length),
                  kernels::recurrent_width_max);
  if (!state) return state;
  const auto experts = check_limit("the number of experts", m.spec.experts, kernels::moe_experts_max);
  if (!experts) return experts;
  for (const tensor_view* vector :
       {&m.weights.output_norm, &m.weights.output_norm_bias, &m.weights.layer_input_norm}) {
    if (const auto checked = check_vector(*vector); !checked) return checked;
  }
  for (const layer_weights& layer : m.weights.layers) {
    for (const auto tensor : engine::layer_vectors()) {
      if (const auto checked = check_vector(layer.*tensor); !checked) return checked;
    }
  }
  return {};
}

const float* floats_of(const tensor_view& tensor) noexcept {
  return reinterpret_cast<const float*>(tensor.data);
}

}  // namespace orcd::gpu
