// Layers that are not made of what the decode program has (gpu/plan/model_support.hpp): other norms, before
// and after the halves, both halves at once, GELU in the gate, experts that all tokens have. Their kernels
// beside products and attention are those of kernels/layer/stream.hpp.
#include <cuda_fp16.h>

#include "engine/base/ensure.hpp"
#include "engine/model/model_tensors.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/plan/model_support.hpp"
#include "kernels/layer/head_norm.hpp"
#include "kernels/layer/stream.hpp"

namespace orcd::gpu {

void cuda_forward::scale(float* values, std::uint64_t count, double by, double cap) const {
  if (by == 1.0 && cap == 0.0) return;
  kernels::scale_values_args args;
  args.x = values;
  args.count = count;
  args.scale = static_cast<float>(by);
  args.cap = static_cast<float>(cap);
  ORCD_CUDA(kernels::launch_scale_values(args, stream_));
}

void cuda_forward::scale_embeddings(std::uint32_t columns) const {
  scale(at<float>(layout_.residual), std::uint64_t{columns} * spec_.embedding, spec_.embedding_scale, 0.0);
}

/// Makes the input of a half: the residual stream's norm of the model's kind, or the stream itself. With
/// `residual_rows` of those rows of it.
void cuda_forward::enter_half(const float* norm, const float* bias, std::uint32_t columns,
                              const std::int32_t* residual_rows) {
  kernels::packed_matmul_args input;
  if (norm != nullptr && spec_.norm == engine::norm_kind::rms)
    return take_norm(input, norm, columns, residual_rows);
  kernels::state_to_half_args args;
  args.x = at<float>(layout_.residual);
  args.weight = norm;
  args.bias = bias;
  args.width = spec_.embedding;
  args.columns = columns;
  args.rows = residual_rows;
  args.eps = static_cast<float>(spec_.rms_eps);
  args.out = args_.norm_outside(input);
  args.out_stride = input.x_stride;
  ORCD_CUDA(kernels::launch_state_to_half(args, stream_));
}

/// Norms of single heads that the kernels of rotation do not have.
void cuda_forward::norm_heads(std::uint32_t layer, std::uint32_t columns) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  if (!has_other_head_norms(spec_) || (w.q_norm == nullptr && w.k_norm == nullptr)) return;
  const engine::layer_spec& spec = spec_.layers[layer];
  kernels::norm_heads_args args;
  args.qkv = at<float>(layout_.qkv);
  args.stride = spec.qkv_rows();
  args.columns = columns;
  args.heads = spec.heads;
  args.kv_heads = spec.kv_heads;
  args.width = spec.key_length;
  args.q_norm = w.q_norm;
  args.k_norm = w.k_norm;
  args.weight_stride = spec_.own_head_norms ? spec.key_length : 0;
  args.centred = spec_.head_norm == engine::norm_kind::layer;
  args.eps = static_cast<float>(spec_.rms_eps);
  ORCD_CUDA(kernels::launch_norm_heads(args, stream_));
}

/// Norms over all heads, and queries that grow with the position.
void cuda_forward::prepare_queries(std::uint32_t layer, std::uint32_t columns) const {
  if (!spec_.wide_head_norms && spec_.query_scale == 0.0) return;
  const engine::layer_spec& spec = spec_.layers[layer];
  kernels::prepare_qkv_args args;
  args.qkv = at<float>(layout_.qkv);
  args.stride = spec.qkv_rows();
  args.columns = columns;
  args.q_width = spec.q_rows();
  args.k_width = spec.k_rows();
  if (spec_.wide_head_norms) {
    args.q_norm = weights_.layers[layer].q_norm;
    args.k_norm = weights_.layers[layer].k_norm;
  }
  args.eps = static_cast<float>(spec_.rms_eps);
  args.steps = steps();
  args.scale = static_cast<float>(spec_.query_scale);
  args.period = spec_.query_scale_period;
  ORCD_CUDA(kernels::launch_prepare_qkv(args, stream_));
}

/// Whether the kernel that adds what a half gave to the stream also makes the next half's input.
bool cuda_forward::enters_next() const noexcept {
  return spec_.post_norms && !spec_.parallel_halves && spec_.norm == engine::norm_kind::rms &&
         spec_.deepstack_layers == 0 && (spec_.experts == 0 || spec_.dense_and_experts);
}

/// The last product of a half, and what its adapters add: to the residual stream, or beside it and then its
/// norm to the stream. With `next` the half after it, which has a norm or none, is entered, too.
void cuda_forward::leave_half(kernels::packed_matmul_args& args, engine::lora_target target,
                              std::uint32_t layer, const float* post_norm, std::uint32_t columns,
                              std::optional<const float*> next) {
  if (spec_.post_norms) {
    args.output = kernels::matmul_output::store;
    args.out = at<float>(layout_.half_out);
  }
  multiply(args, nullptr, columns);
  const lora_output output{target, 0};
  add_lora({&output, 1}, layer, {args.x, nullptr, args.x_stride}, args.out, spec_.embedding, columns);
  if (spec_.post_norms) add_half(args.out, post_norm, columns, 1.0F, next);
}

/// Adds the norm of what a half gave to the stream, which is then multiplied by `scale`. `next` as above.
void cuda_forward::add_half(const float* h, const float* post_norm, std::uint32_t columns, float scale,
                            std::optional<const float*> next) {
  kernels::add_normed_args add;
  add.x = at<float>(layout_.residual);
  add.h = h;
  add.weight = post_norm;
  add.width = spec_.embedding;
  add.columns = columns;
  add.eps = static_cast<float>(spec_.rms_eps);
  add.scale = scale;
  if (next) {
    kernels::packed_matmul_args input;
    add.next = args_.norm_outside(input);
    add.next_stride = input.x_stride;
    add.next_weight = *next;
    add.next_eps = static_cast<float>(spec_.residual_eps());
  }
  ORCD_CUDA(kernels::launch_add_normed(add, stream_));
}

/// The end of a layer whose dense part's last product is `down`: what experts beside it give, what it makes
/// of its own inputs, and the multiplier of the stream; then the next layer is entered.
void cuda_forward::leave_layer(std::uint32_t layer, kernels::packed_matmul_args& down,
                               std::uint32_t columns) {
  using next_norm = std::optional<const float*>;
  const cuda_layer_weights& w = weights_.layers[layer];
  const bool last = layer + 1 == spec_.layers.size();
  const next_norm next =
      enters_next() && !last ? next_norm(weights_.layers[layer + 1].attn_norm) : std::nullopt;
  const bool beside = spec_.dense_and_experts && spec_.layers[layer].ffn == engine::ffn_kind::moe;
  if (!beside && !spec_.output_scales && spec_.layer_inputs == 0)
    return leave_half(down, engine::lora_target::ffn_down, layer, w.ffn_post_norm, columns, next);
  const float scale = engine::output_scale_of(model_.weights.layers[layer]);
  down.output = kernels::matmul_output::store;
  down.out = at<float>(layout_.half_out);
  multiply(down, nullptr, columns);
  const lora_output output{engine::lora_target::ffn_down, 0};
  add_lora({&output, 1}, layer, {down.x, nullptr, down.x_stride}, down.out, spec_.embedding, columns);
  if (beside) experts_beside(layer, columns);
  if (spec_.layer_inputs == 0) return add_half(down.out, w.ffn_post_norm, columns, scale, next);
  add_half(down.out, w.ffn_post_norm, columns, 1.0F, std::nullopt);
  layer_inputs_.multiply(layer, columns);
  add_half(at<float>(layout_.half_out), w.layer_input_norm, columns, scale, next);
}

/// Adds the norm of what the layer's experts give to that of what its dense part has given.
void cuda_forward::experts_beside(std::uint32_t layer, std::uint32_t columns) {
  const cuda_layer_weights& w = weights_.layers[layer];
  expert_ffn(layer, columns);
  kernels::add_norms_args add;
  add.a = at<float>(layout_.half_out);
  add.b = at<float>(layout_.second_half_out);
  add.a_weight = w.ffn_post_norm_1;
  add.b_weight = w.ffn_post_norm_2;
  add.width = spec_.embedding;
  add.columns = columns;
  add.eps = static_cast<float>(spec_.rms_eps);
  ORCD_CUDA(kernels::launch_add_norms(add, stream_));
}

/// Up, with or without a gate, and an activation that no product makes.
void cuda_forward::activated_ffn(std::uint32_t layer, std::uint32_t columns) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const std::uint32_t ffn = spec_.layers[layer].ffn_size;
  const bool gated = has_gate(spec_.activation);
  kernels::packed_matmul_args hidden;
  hidden.matrices = gated ? 2 : 1;
  hidden.w[0] = gated ? w.gate : w.up;
  hidden.bias[0] = gated ? w.gate_bias : w.up_bias;
  if (gated) {
    hidden.w[1] = w.up;
    hidden.bias[1] = w.up_bias;
  }
  args_.norm_outside(hidden);
  hidden.out = at<float>(layout_.hidden);
  hidden.out_stride = gated ? 2 * ffn : ffn;
  multiply(hidden, nullptr, columns);
  if (gated) {
    add_gate_up_lora(layer, {hidden.x, nullptr, hidden.x_stride}, hidden.out, columns);
  } else {
    const lora_output up{engine::lora_target::ffn_up, 0};
    add_lora({&up, 1}, layer, {hidden.x, nullptr, hidden.x_stride}, hidden.out, ffn, columns);
  }
  if (spec_.activation == engine::ffn_activation::squared_relu)
    return square_relu(ffn, columns, at<__half>(layout_.activated));
  kernels::gelu_tanh_args args;
  args.x = hidden.out;
  args.gated = gated;
  args.width = ffn;
  args.columns = columns;
  args.out = at<__half>(layout_.activated);
  args.out_stride = kernels::padded_cols(ffn);
  ORCD_CUDA(kernels::launch_gelu_tanh(args, stream_));
}

/// Whether the layer's shared expert, if it has one, can read in packed order. With fewer columns the
/// instances for that have too few blocks for its rows, by the estimate of packed_matmul.cu.
bool cuda_forward::shared_takes_packed(std::uint32_t layer, std::uint32_t columns) const {
  const std::uint32_t width = spec_.layers[layer].shared_size;
  if (width == 0) return true;
  if (!has_gate(spec_.activation)) return false;
  return columns >= 256 && !spec_.shared_gate && width % kernels::group_cols == 0 &&
         is_throughput_product(args_.shared_gate_up_of(layer), columns) &&
         is_throughput_product(args_.shared_down_of(layer), columns);
}

/// The expert that every token has, after the others, whose router has left the norm in this order.
void cuda_forward::shared_ffn(std::uint32_t layer, std::uint32_t columns, kernels::half_order normed) {
  if (spec_.layers[layer].shared_size == 0) return;
  kernels::packed_matmul_args down = args_.shared_down_of(layer);
  if (!has_gate(spec_.activation)) return ungated_shared(layer, columns, down);
  kernels::packed_matmul_args gate_up = args_.shared_gate_up_of(layer);
  gate_up.x_order = down.x_order = normed;
  multiply(gate_up, nullptr, columns);
  if (spec_.shared_gate) {
    down.output = kernels::matmul_output::store;
    down.out = at<float>(layout_.half_out);
  }
  multiply(down, nullptr, columns);
  if (!spec_.shared_gate) return;
  kernels::add_gated_args add;
  add.x = at<float>(layout_.residual);
  add.h = down.out;
  add.gate = weights_.layers[layer].shared_router;
  add.normed = gate_up.x;
  add.normed_stride = gate_up.x_stride;
  add.width = spec_.embedding;
  add.columns = columns;
  ORCD_CUDA(kernels::launch_add_gated(add, stream_));
}

/// Queries, keys and values from the norm of the stream to what attention takes.
void cuda_forward::attention_half(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass) {
  if (spec_.latent) return latent_half(layer, columns, pass);
  if (spec_.layers[layer].query_gate) {
    gated_qkv(layer, columns);
  } else {
    kernels::packed_matmul_args qkv = args_.qkv_of(layer);
    args_.norm_outside(qkv);
    multiply(qkv, nullptr, columns);
    add_qkv_lora(layer, {qkv.x, nullptr, qkv.x_stride}, columns);
  }
  // Values that are keys are not made here, and are not in the row.
  if (!spec_.layers[layer].values_from_keys)
    tap("qkv", layer, at<float>(layout_.qkv), std::uint64_t{columns} * spec_.layers[layer].qkv_rows());
  norm_heads(layer, columns);
  prepare_queries(layer, columns);
  attend(layer, columns, pass);
}

void cuda_forward::other_layer(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const engine::layer_spec& of = spec_.layers[layer];
  using next_norm = std::optional<const float*>;
  next_norm of_ffn;
  if (of.mixer != engine::mixer_kind::none) {
    if (layer == 0 || !enters_next()) enter_half(w.attn_norm, w.attn_norm_bias, columns, nullptr);
    if (of.mixer != engine::mixer_kind::attention) {
      recurrent_half(layer, columns);
    } else {
      attention_half(layer, columns, pass);
      kernels::packed_matmul_args o = args_.o_of(layer);
      if (enters_next()) of_ffn = w.ffn_norm;
      leave_half(o, engine::lora_target::attn_output, layer, w.attn_post_norm, columns, of_ffn);
    }
    tap("attn_residual", layer, at<float>(layout_.residual), std::uint64_t{columns} * spec_.embedding);
  }
  if (of.ffn != engine::ffn_kind::none) other_ffn(layer, columns, of_ffn.has_value());
}

/// `entered`: what comes before it has made its input.
void cuda_forward::other_ffn(std::uint32_t layer, std::uint32_t columns, bool entered) {
  const cuda_layer_weights& w = weights_.layers[layer];
  if (spec_.layers[layer].ffn == engine::ffn_kind::moe && !spec_.dense_and_experts) {
    const kernels::half_order normed = expert_ffn(layer, columns);
    return shared_ffn(layer, columns, normed);
  }
  if (!spec_.parallel_halves && !entered) enter_half(w.ffn_norm, w.ffn_norm_bias, columns, nullptr);
  if (spec_.activation == engine::ffn_activation::swiglu)
    gate_up(layer, nullptr, columns);
  else
    activated_ffn(layer, columns);
  kernels::packed_matmul_args down = args_.down_of(layer);
  leave_layer(layer, down, columns);
}

}  // namespace orcd::gpu
