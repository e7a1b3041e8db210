// What models with learned positions and post-norm do differently, and the final states from which embeddings
// are made.
#include <cstring>

#include "gpu/host/host_forward.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/rms_norm.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

/// Adds row `row` of a matrix to `to`.
void add_row(const engine::tensor_view& tensor, std::uint32_t row, float* scratch, float* to) {
  const kernels::weight_matrix matrix = matrix_of(tensor);
  host::dequantize_row(matrix, row, scratch);
  for (std::uint32_t i = 0; i < matrix.cols; ++i) to[i] += scratch[i];
}

}  // namespace

/// A token of the second segment has the second type, if the model has one.
void host_forward::add_positions() {
  for (std::uint32_t c = 0; c < columns_; ++c) {
    float* to = work_.residual + std::uint64_t{c} * spec_.embedding;
    const sequence_form& form = forms_[work_.column_slots[c]];
    const bool second = form.second_segment != 0 && work_.positions[c] >= form.second_segment;
    add_row(model_.weights.token_types, second && spec_.token_types > 1 ? 1 : 0, work_.normed, to);
    add_row(model_.weights.position_embd, work_.positions[c], work_.normed, to);
  }
}

/// Post-norm: normalises the residual stream in place.
void host_forward::post_norm(const engine::tensor_view& weight, const engine::tensor_view& bias) {
  host::layer_norm({.x = work_.residual,
                    .out = work_.normed,
                    .weight = floats_of(weight),
                    .bias = floats_of(bias),
                    .x_stride = spec_.embedding,
                    .out_stride = spec_.embedding,
                    .rows = columns_,
                    .width = spec_.embedding,
                    .eps = static_cast<float>(spec_.rms_eps)},
                   pool_);
  std::memcpy(work_.residual, work_.normed, std::uint64_t{columns_} * spec_.embedding * sizeof(float));
}

void host_forward::run_post_norm_layer(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const std::uint64_t width = std::uint64_t{columns_} * spec_.embedding;
  project_qkv(layer);
  rotate(layer);
  store_kv(layer);
  attend(layer);
  project_attended(layer);
  post_norm(weights.attn_output_norm, weights.attn_output_norm_bias);
  tap("attn_residual", layer, work_.residual, width);
  dense_ffn(layer);
  post_norm(weights.layer_output_norm, weights.layer_output_norm_bias);
  tap("layer_out", layer, work_.residual, width);
}

/// States of the tokens of the last run, after the norm behind the last layer if there is one.
const float* host_forward::final_states(std::uint32_t columns) {
  if (spec_.norms == engine::norm_placement::after) return work_.residual;
  normalise_rows(work_.residual, work_.normed, columns, model_.weights.output_norm,
                 model_.weights.output_norm_bias);
  return work_.normed;
}

}  // namespace orcd::gpu
