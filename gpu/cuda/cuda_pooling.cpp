#include "gpu/cuda/cuda_pooling.hpp"

#include "gpu/host/host_tensors.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/rms_norm.hpp"

namespace orcd::gpu {

cuda_pooling::cuda_pooling(const engine::model& m, const cuda_extents& extents)
    : model_(m), gathered_(m, extents.slots) {
  states_.reserve(std::size_t{extents.chunk_tokens} * m.spec.embedding);
  if (m.spec.norms == engine::norm_placement::after) return;
  const float* weights = floats_of(m.weights.output_norm);
  norm_.assign(weights, weights + m.spec.embedding);
  if (!m.weights.output_norm_bias) return;
  const float* biases = floats_of(m.weights.output_norm_bias);
  bias_.assign(biases, biases + m.spec.embedding);
}

void cuda_pooling::normalise(std::span<float> states) {
  if (norm_.empty()) return;
  const std::uint32_t width = model_.spec.embedding;
  const auto rows = static_cast<std::uint32_t>(states.size() / width);
  const auto eps = static_cast<float>(model_.spec.residual_eps());
  if (model_.spec.norm == engine::norm_kind::layer) {
    return kernels::host::layer_norm({.x = states.data(),
                                      .out = states.data(),
                                      .weight = norm_.data(),
                                      .bias = bias_.empty() ? nullptr : bias_.data(),
                                      .x_stride = width,
                                      .out_stride = width,
                                      .rows = rows,
                                      .width = width,
                                      .eps = eps},
                                     pool_);
  }
  kernels::host::rms_norm({.x = states.data(),
                           .out = states.data(),
                           .weight = norm_.data(),
                           .x_stride = width,
                           .out_stride = width,
                           .rows = rows,
                           .width = width,
                           .eps = eps},
                          pool_);
}

engine::pooled_values cuda_pooling::take(const cuda_forward& forward, const engine::sequence_step& sequence) {
  const auto slot = static_cast<std::uint32_t>(sequence.slot);
  states_.resize(std::size_t{sequence.count()} * model_.spec.embedding);
  forward.copy_states(0, states_);
  normalise(states_);
  gathered_.add(slot, sequence.position, states_);
  if (!sequence.ends_with_result()) return nullptr;
  return gathered_.take(slot, sequence.pool->tokens);
}

}  // namespace orcd::gpu
