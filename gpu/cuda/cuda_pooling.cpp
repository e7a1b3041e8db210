#include "gpu/cuda/cuda_pooling.hpp"

#include "gpu/host/host_tensors.hpp"
#include "kernels/host/rms_norm.hpp"

namespace orcd::gpu {

cuda_pooling::cuda_pooling(const engine::model& m, const cuda_extents& extents)
    : model_(m), gathered_(m, extents.slots) {
  states_.reserve(std::size_t{extents.chunk_tokens} * m.spec.embedding);
  if (m.spec.norms == engine::norm_placement::after) return;
  const float* weights = floats_of(m.weights.output_norm);
  norm_.assign(weights, weights + m.spec.embedding);
}

void cuda_pooling::normalise(std::span<float> states) {
  if (norm_.empty()) return;
  const std::uint32_t width = model_.spec.embedding;
  kernels::host::rms_norm({.x = states.data(),
                           .out = states.data(),
                           .weight = norm_.data(),
                           .x_stride = width,
                           .out_stride = width,
                           .rows = static_cast<std::uint32_t>(states.size() / width),
                           .width = width,
                           .eps = static_cast<float>(model_.spec.residual_eps())},
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
