// Layers whose ternary matrices multiply activations in int8.
#include <cuda_fp16.h>

#include <algorithm>

#include "gpu/cuda/cuda_forward.hpp"

namespace orcd::gpu {

/// The buffer that a row of `width` integers is rounded into; there is one at a time.
kernels::device_int8_rows cuda_forward::integers(std::uint32_t width) const {
  return {at<std::int8_t>(layout_.ints), at<float>(layout_.int_scales), at<std::int32_t>(layout_.int_sums),
          width};
}

/// The norm of the residual stream as integers.
kernels::norm_to_int8_args cuda_forward::norm_of_residual(const float* weight, std::uint32_t columns) const {
  kernels::norm_to_int8_args norm;
  norm.x = at<float>(layout_.residual);
  norm.x_stride = spec_.embedding;
  norm.weight = weight;
  norm.width = spec_.embedding;
  norm.columns = columns;
  norm.eps = static_cast<float>(spec_.residual_eps());
  norm.out = integers(spec_.embedding);
  return norm;
}

kernels::norm_to_int8_args cuda_forward::norm_of_attended(std::uint32_t layer, std::uint32_t columns) const {
  const kernels::attention_args_paged attend = args_.attention_of(layer, columns).attend;
  kernels::norm_to_int8_args norm;
  norm.halves = attend.out;
  norm.x_stride = attend.out_stride;
  norm.weight = weights_.layers[layer].attn_sub_norm;
  norm.width = spec_.layers[layer].attended_rows();
  norm.columns = columns;
  norm.eps = static_cast<float>(spec_.rms_eps);
  norm.out = integers(norm.width);
  return norm;
}

/// Gate and up stay in f32 until they are integers: the square of a gate exceeds f16 in real models.
kernels::norm_to_int8_args cuda_forward::norm_of_activated(std::uint32_t layer, std::uint32_t columns) const {
  const std::uint32_t ffn = spec_.layers[layer].ffn_size;
  kernels::norm_to_int8_args norm;
  norm.gate_up = at<float>(layout_.hidden);
  norm.squared = spec_.activation == engine::ffn_activation::relu_squared;
  norm.x_stride = 2 * ffn;
  norm.weight = weights_.layers[layer].ffn_sub_norm;
  norm.width = ffn;
  norm.columns = columns;
  norm.eps = static_cast<float>(spec_.activated_eps(spec_.layers[layer]));
  norm.out = integers(ffn);
  return norm;
}

void cuda_forward::multiply_integers(const kernels::norm_to_int8_args& input,
                                     kernels::ternary_matmul_args product) {
  product.x = input.out;
  product.columns = input.columns;
  ORCD_CUDA(kernels::launch_norm_to_int8(input, stream_));
  ORCD_CUDA(kernels::launch_ternary_matmul(product, stream_));
}

kernels::ternary_matmul_args cuda_forward::ternary_qkv_of(std::uint32_t layer) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  const engine::layer_spec& spec = spec_.layers[layer];
  kernels::ternary_matmul_args qkv;
  qkv.w[0] = w.ternary.q;
  qkv.w[1] = w.ternary.k;
  qkv.w[2] = w.ternary.v;
  qkv.matrices = 3;
  qkv.out = at<float>(layout_.qkv);
  qkv.out_stride = spec.qkv_rows();
  return qkv;
}

kernels::ternary_matmul_args cuda_forward::ternary_gate_up_of(std::uint32_t layer) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::ternary_matmul_args gate_up;
  gate_up.w[0] = w.ternary.gate;
  gate_up.w[1] = w.ternary.up;
  gate_up.matrices = 2;
  gate_up.out = at<float>(layout_.hidden);
  gate_up.out_stride = 2 * spec_.layers[layer].ffn_size;
  return gate_up;
}

kernels::ternary_matmul_args cuda_forward::added_to_residual(const kernels::ternary_matrix& w) const {
  kernels::ternary_matmul_args args;
  args.w[0] = w;
  args.out = at<float>(layout_.residual);
  args.out_stride = spec_.embedding;
  args.add = true;
  return args;
}

void cuda_forward::ternary_layer(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const auto* residual = at<float>(layout_.residual);
  const kernels::ternary_matmul_args qkv = ternary_qkv_of(layer);
  kernels::norm_to_int8_args input = norm_of_residual(w.attn_norm, columns);
  lora_input floats = keep_floats(input);
  multiply_integers(input, qkv);
  add_qkv_lora(layer, floats, columns);
  tap("qkv", layer, qkv.out, std::uint64_t{columns} * qkv.out_stride);
  attend(layer, columns, pass);

  input = norm_of_attended(layer, columns);
  floats = keep_floats(input);
  multiply_integers(input, added_to_residual(w.ternary.o));
  add_residual_lora(engine::lora_target::attn_output, layer, floats, columns);
  tap("attn_residual", layer, residual, std::uint64_t{columns} * spec_.embedding);

  const kernels::ternary_matmul_args gate_up = ternary_gate_up_of(layer);
  input = norm_of_residual(w.ffn_norm, columns);
  floats = keep_floats(input);
  multiply_integers(input, gate_up);
  add_gate_up_lora(layer, floats, gate_up.out, columns);
  input = norm_of_activated(layer, columns);
  floats = keep_floats(input);
  multiply_integers(input, added_to_residual(w.ternary.down));
  add_residual_lora(engine::lora_target::ffn_down, layer, floats, columns);
}

/// The same layers as phases of one kernel, for one column.
void cuda_forward::plan_ternary_layers(decode_program_plan& plan) const {
  const auto flagged = [&](std::uint64_t offset) { return at<std::uint64_t>(offset); };
  auto* const residual = flagged(layout_.flagged.residual);
  auto* const qkv = flagged(layout_.flagged.qkv);
  auto* const attended = flagged(layout_.flagged.attended);
  auto* const activated = flagged(layout_.flagged.activated);
  plan.add_begin(weights_.layers[0].ternary.o, at<float>(layout_.residual), residual);
  for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const cuda_layer_weights& w = weights_.layers[layer];
    const kernels::norm_to_int8_args hidden = norm_of_activated(layer, 1);
    plan.add_ternary(ternary_qkv_of(layer), norm_of_residual(w.attn_norm, 1), nullptr, residual, qkv);
    plan.add_attention(args_.attention_of(layer, 1), qkv, attended, flagged(layout_.flagged.page_partials));
    plan.add_ternary(added_to_residual(w.ternary.o), norm_of_attended(layer, 1), nullptr, attended, residual);
    plan.add_ternary(ternary_gate_up_of(layer), norm_of_residual(w.ffn_norm, 1), &hidden, residual,
                     activated);
    plan.add_ternary(added_to_residual(w.ternary.down), hidden, nullptr, activated, residual);
  }
}

}  // namespace orcd::gpu
