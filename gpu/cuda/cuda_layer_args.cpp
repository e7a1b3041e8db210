#include "gpu/cuda/cuda_layer_args.hpp"

#include <cuda_fp16.h>

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "engine/model/rope.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/plan/model_support.hpp"

namespace orcd::gpu {
namespace {

kernels::matmul_output activation_of(const engine::model_spec& spec) {
  switch (spec.activation) {
    case engine::ffn_activation::swiglu: return kernels::matmul_output::swiglu;
    case engine::ffn_activation::swiglu_clamped: return kernels::matmul_output::swiglu_clamped;
    case engine::ffn_activation::geglu_tanh: return kernels::matmul_output::geglu;
    case engine::ffn_activation::gelu:
    case engine::ffn_activation::gelu_tanh:
    case engine::ffn_activation::squared_relu:
    case engine::ffn_activation::gelu_sigmoid:
    case engine::ffn_activation::relu_squared: break;  // not made by a product
  }
  ORCD_ENSURE(false);
  return kernels::matmul_output::swiglu;
}

/// Softmax over all experts with the chosen ones renormalised is that over the chosen ones.
kernels::route_weighting weighting_of(engine::router_weighting weighting) {
  switch (weighting) {
    case engine::router_weighting::softmax_all: return kernels::route_weighting::all;
    case engine::router_weighting::sigmoid: return kernels::route_weighting::sigmoid;
    case engine::router_weighting::sigmoid_renormalised:
      return kernels::route_weighting::sigmoid_renormalised;
    case engine::router_weighting::softmax_all_renormalised:
    case engine::router_weighting::softmax_selected: break;
  }
  return kernels::route_weighting::selected;
}

}  // namespace

cuda_layer_args::cuda_layer_args(const engine::model& m, const cuda_weights& weights, std::uint32_t context,
                                 const work_layout& layout, const vram_arena& work,
                                 const cuda_kv_pages& pages, const given_media& media)
    : spec_(m.spec), weights_(weights), layout_(layout), work_(work), pages_(pages), media_(media) {
  write_tables(m, context);
}

/// Lets the product compute the norm of the residual stream itself, in every block.
void cuda_layer_args::norm_inside(kernels::packed_matmul_args& args, const float* norm) const {
  args.norm_x = at<float>(layout_.residual);
  args.norm_weight = norm;
  args.norm_eps = static_cast<float>(spec_.residual_eps());
}

kernels::packed_matmul_args cuda_layer_args::head_of() const {
  kernels::packed_matmul_args logits;
  logits.w[0] = weights_.output;
  logits.out = at<float>(layout_.logits);
  logits.out_stride = spec_.vocab;
  return logits;
}

kernels::packed_matmul_args cuda_layer_args::qkv_of(std::uint32_t layer) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  const engine::layer_spec& spec = spec_.layers[layer];
  kernels::packed_matmul_args qkv;
  qkv.w[0] = w.q;
  qkv.w[1] = w.k;
  qkv.w[2] = w.v;
  qkv.bias[0] = w.q_bias;
  qkv.bias[1] = w.k_bias;
  qkv.bias[2] = w.v_bias;
  qkv.matrices = spec.reads_other_cache ? 1 : spec.values_from_keys ? 2 : 3;
  qkv.out = at<float>(layout_.qkv);
  qkv.out_stride = spec.qkv_rows();
  return qkv;
}

/// What happens to queries, keys and values between the QKV product and attention.
kernels::rope_store_args cuda_layer_args::rope_of(std::uint32_t layer, std::uint32_t columns) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  const engine::layer_spec& spec = spec_.layers[layer];
  kernels::rope_store_args rope;
  rope.qkv = at<float>(layout_.qkv);
  rope.stride = spec.qkv_rows();
  rope.steps = at<kernels::step_token>(layout_.steps);
  rope.columns = columns;
  rope.heads = spec.heads;
  rope.kv_heads = spec.kv_heads;
  rope.width = spec.key_length;
  rope.padded_width = kernels::padded_head_width(spec.key_length);
  rope.rope_dims = spec.rope.dims;
  rope.interleaved = spec.rope.pairing == engine::rope_pairing::interleaved;
  rope.inv_freq = inv_freq_of(layer);
  rope.magnitude = magnitude_of(layer);
  if (turns_by_axes_[rope_of_layer_[layer]]) {
    rope.turns = media_.turns;
    rope.axes = media_.axes + rope_of_layer_[layer] * kernels::rope_pairs_max;
  }
  if (!spec_.wide_head_norms && !has_other_head_norms(spec_)) {
    rope.q_norm = w.q_norm;
    rope.k_norm = w.k_norm;
  }
  rope.norm_eps = static_cast<float>(spec_.rms_eps);
  rope.value_norm = spec_.value_norm;
  rope.values_from_keys = spec.values_from_keys;
  rope.queries_only = spec.reads_other_cache;
  rope.q = at<__half>(layout_.q);
  rope.cache = pages_.of(layer);
  return rope;
}

kernels::decode_attention_args cuda_layer_args::attention_of(std::uint32_t layer,
                                                             std::uint32_t columns) const {
  const engine::layer_spec& spec = spec_.layers[layer];
  const kernels::rope_store_args rope = rope_of(layer, columns);
  kernels::attention_args_paged attend;
  attend.q = rope.q;
  attend.cache = rope.cache;
  attend.steps = rope.steps;
  attend.columns = columns;
  attend.heads = spec.heads;
  attend.kv_heads = spec.kv_heads;
  attend.width = spec.value_length;
  attend.padded_width = rope.padded_width;
  attend.window = spec.window;
  if (!spec_.pictures_in_windows_alone || spec.window > 0) attend.blocks = media_.seen;
  attend.scale = static_cast<float>(spec_.attention_scale);
  attend.softcap = static_cast<float>(spec_.attention_softcap);
  attend.sinks = weights_.layers[layer].sinks;
  attend.out = at<__half>(layout_.attended);
  attend.out_stride = kernels::padded_cols(spec.attended_rows());
  return {rope, attend, at<float>(layout_.partials), at<std::uint32_t>(layout_.arrivals)};
}

/// Fields that several products share: the outputs of gate and up, the input of down, and the output of a
/// product that adds to the residual stream.
void cuda_layer_args::activate(kernels::packed_matmul_args& gate_up, std::uint32_t layer) const {
  gate_up.matrices = 2;
  gate_up.output = activation_of(spec_);
  gate_up.act = at<__half>(layout_.activated);
  gate_up.act_stride = kernels::padded_cols(spec_.layers[layer].ffn_size);
}
void cuda_layer_args::read_activated(kernels::packed_matmul_args& down, std::uint32_t layer) const {
  down.x = at<__half>(layout_.activated);
  down.x_stride = kernels::padded_cols(spec_.layers[layer].ffn_size);
}
void cuda_layer_args::add_to_residual(kernels::packed_matmul_args& args) const {
  args.output = kernels::matmul_output::add;
  args.out = at<float>(layout_.residual);
  args.out_stride = spec_.embedding;
}

kernels::packed_matmul_args cuda_layer_args::o_of(std::uint32_t layer) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::packed_matmul_args o;
  o.w[0] = w.o;
  o.bias[0] = w.o_bias;
  o.x = at<__half>(layout_.attended);
  o.x_stride = kernels::padded_cols(attended_width(layer));
  add_to_residual(o);
  return o;
}

kernels::packed_matmul_args cuda_layer_args::gate_up_of(std::uint32_t layer) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::packed_matmul_args gate_up;
  gate_up.w[0] = w.gate;
  gate_up.w[1] = w.up;
  gate_up.bias[0] = w.gate_bias;
  gate_up.bias[1] = w.up_bias;
  activate(gate_up, layer);
  return gate_up;
}

kernels::packed_matmul_args cuda_layer_args::down_of(std::uint32_t layer) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::packed_matmul_args down;
  down.w[0] = w.down;
  down.bias[0] = w.down_bias;
  read_activated(down, layer);
  add_to_residual(down);
  return down;
}

kernels::route_args cuda_layer_args::route_of(std::uint32_t layer, std::uint32_t columns) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::route_args route;
  route.x = at<float>(layout_.residual);
  route.norm_weight = spec_.router_norm ? w.router_norm : w.ffn_norm;
  route.norm_eps = static_cast<float>(spec_.residual_eps());
  route.router = w.router;
  route.bias = w.router_bias;
  route.width = spec_.embedding;
  route.experts = spec_.experts;
  route.used = spec_.experts_used;
  route.columns = columns;
  route.logits = at<float>(layout_.router_logits);
  route.chosen = at<std::int32_t>(layout_.chosen);
  route.weights = at<float>(layout_.expert_weights);
  route.arrivals = at<std::uint32_t>(layout_.arrivals);
  route.weighting = weighting_of(spec_.routing);
  route.choice_bias = w.choice_bias;
  route.scale = static_cast<float>(spec_.expert_scale);
  route.expert_scales = w.expert_scale;
  return route;
}

kernels::packed_matmul_args cuda_layer_args::expert_gate_up_of(std::uint32_t layer,
                                                               std::uint32_t pairs) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::packed_matmul_args gate_up;
  gate_up.w[0] = w.expert_gate;
  gate_up.w[1] = w.expert_up;
  gate_up.bias[0] = w.expert_gate_bias;
  gate_up.bias[1] = w.expert_up_bias;
  activate(gate_up, layer);
  gate_up.act = at<__half>(layout_.expert_activated);
  gate_up.act_stride = kernels::padded_cols(spec_.layers[layer].width_of_expert());
  gate_up.columns = pairs;
  gate_up.x_divisor = spec_.experts_used;
  gate_up.experts = at<std::int32_t>(layout_.chosen);
  return gate_up;
}

kernels::packed_matmul_args cuda_layer_args::expert_down_of(std::uint32_t layer, std::uint32_t pairs) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::packed_matmul_args down;
  down.w[0] = w.expert_down;
  down.bias[0] = w.expert_down_bias;
  down.columns = pairs;
  down.x = at<__half>(layout_.expert_activated);
  down.x_stride = kernels::padded_cols(spec_.layers[layer].width_of_expert());
  down.out = at<float>(layout_.expert_out);
  down.out_stride = spec_.embedding;
  down.experts = at<std::int32_t>(layout_.chosen);
  return down;
}

kernels::combine_experts_args cuda_layer_args::combine_of(std::uint32_t columns) const {
  return {at<float>(layout_.expert_out),
          at<float>(layout_.expert_weights),
          at<float>(spec_.dense_and_experts ? layout_.second_half_out : layout_.residual),
          spec_.embedding,
          spec_.experts_used,
          columns,
          spec_.dense_and_experts};
}

/// Makes the norm of the residual stream, computed by a kernel of its own, a product's input. Returns the
/// buffer.
__half* cuda_layer_args::norm_outside(kernels::packed_matmul_args& args) const {
  auto* const normed = at<__half>(layout_.normed);
  args.x = normed;
  args.x_stride = kernels::padded_cols(spec_.embedding);
  return normed;
}

/// The product with the norm as its input.
kernels::packed_matmul_args cuda_layer_args::normed(kernels::packed_matmul_args args) const {
  norm_outside(args);
  return args;
}

kernels::packed_matmul_args cuda_layer_args::shared_gate_up_of(std::uint32_t layer) const {
  kernels::packed_matmul_args gate_up;
  gate_up.w[0] = weights_.layers[layer].shared_gate;
  gate_up.w[1] = weights_.layers[layer].shared_up;
  activate(gate_up, layer);
  gate_up.act = at<__half>(layout_.shared_activated);
  gate_up.act_stride = kernels::padded_cols(spec_.layers[layer].shared_size);
  norm_outside(gate_up);
  return gate_up;
}

kernels::packed_matmul_args cuda_layer_args::shared_down_of(std::uint32_t layer) const {
  kernels::packed_matmul_args down;
  down.w[0] = weights_.layers[layer].shared_down;
  down.x = at<__half>(layout_.shared_activated);
  down.x_stride = kernels::padded_cols(spec_.layers[layer].shared_size);
  add_to_residual(down);
  return down;
}

void cuda_layer_args::write_tables(const engine::model& m, std::uint32_t context) {
  const std::vector<float> factors = engine::rope_freq_factors(m, context);
  std::vector<engine::rope_table> tables;
  for (const auto& layer : spec_.layers) {
    engine::rope_table table = engine::make_rope_table(layer.rope, factors);
    const auto same = std::find_if(tables.begin(), tables.end(), [&](const engine::rope_table& t) {
      return t.inv_freq == table.inv_freq && t.magnitude == table.magnitude;
    });
    rope_of_layer_.push_back(static_cast<std::uint32_t>(same - tables.begin()));
    if (same == tables.end()) tables.push_back(std::move(table));
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    magnitudes_.push_back(tables[i].magnitude);
    // Without a projector all three positions are one.
    turns_by_axes_.push_back(media_.axes != nullptr && !tables[i].axes.empty());
    if (turns_by_axes_.back())
      ORCD_CUDA(cudaMemcpy(media_.axes + i * kernels::rope_pairs_max, tables[i].axes.data(),
                           tables[i].axes.size(), cudaMemcpyHostToDevice));
    if (tables[i].inv_freq.empty()) continue;
    ORCD_CUDA(cudaMemcpy(at<float>(layout_.inv_freq) + i * kernels::rope_pairs_max, tables[i].inv_freq.data(),
                         tables[i].inv_freq.size() * sizeof(float), cudaMemcpyHostToDevice));
  }
}

}  // namespace orcd::gpu
