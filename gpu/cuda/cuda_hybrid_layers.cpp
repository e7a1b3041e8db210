// What hybrid models have beside attention and gated feed-forwards: recurrent layers, gates of queries, and
// feed-forwards and experts with a squared ReLU and no gate.
#include <cuda_fp16.h>

#include <algorithm>

#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/plan/expert_groups_of.hpp"
#include "kernels/layer/experts.hpp"
#include "kernels/product/packed_matmul.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace orcd::gpu {

using engine::lora_target;

/// A mixer without attention, whose input is the norm that has been computed.
void cuda_forward::recurrent_half(std::uint32_t layer, std::uint32_t columns) {
  kernels::packed_matmul_args input;
  args_.norm_outside(input);
  recurrence_.project(layer, input.x, input.x_stride);
  const mixed_layout at = recurrence_.places(layer);
  const lora_output outputs[] = {{lora_target::mix_in, 0}, {lora_target::mix_gate, at.gate}};
  const bool gated = spec_.layers[layer].mixer == engine::mixer_kind::delta_net;
  add_lora({outputs, gated ? 2U : 1U}, layer, {input.x, nullptr, input.x_stride}, recurrence_.mixed(),
           at.width, columns);
  recurrence_.mix(layer);
  const std::uint32_t width = recurrence_.values_width(layer);
  if (width % kernels::group_cols == 0)
    tap("mixed", layer, recurrence_.values(), std::uint64_t{columns} * width);
  kernels::packed_matmul_args out;
  out.w[0] = weights_.layers[layer].mix_out;
  out.x = recurrence_.values();
  out.x_stride = kernels::padded_cols(width);
  args_.add_to_residual(out);
  leave_half(out, lora_target::mix_out, layer, weights_.layers[layer].attn_post_norm, columns, std::nullopt);
}

/// Queries and their gates in rows of their own; then queries, keys and values as without gates.
void cuda_forward::gated_qkv(std::uint32_t layer, std::uint32_t columns) {
  const engine::layer_spec& spec = spec_.layers[layer];
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::packed_matmul_args query;
  query.w[0] = w.q;
  query.bias[0] = w.q_bias;
  args_.norm_outside(query);
  query.out = at<float>(layout_.recurrent.gated_query);
  query.out_stride = 2 * spec.q_rows();
  multiply(query, nullptr, columns);
  kernels::packed_matmul_args kv;
  kv.w[0] = w.k;
  kv.w[1] = w.v;
  kv.bias[0] = w.k_bias;
  kv.bias[1] = w.v_bias;
  kv.matrices = 2;
  args_.norm_outside(kv);
  kv.out = at<float>(layout_.qkv) + spec.q_rows();
  kv.out_stride = spec.qkv_rows();
  multiply(kv, nullptr, columns);
  const lora_input x{query.x, nullptr, query.x_stride};
  const lora_output of_query{lora_target::attn_q, 0};
  add_lora({&of_query, 1}, layer, x, query.out, query.out_stride, columns);
  const lora_output of_kv[] = {{lora_target::attn_k, 0}, {lora_target::attn_v, spec.k_rows()}};
  add_lora(of_kv, layer, x, kv.out, kv.out_stride, columns);
  kernels::take_queries_args take;
  take.gated = query.out;
  take.qkv = at<float>(layout_.qkv);
  take.stride = spec.qkv_rows();
  take.heads = spec.heads;
  take.width = spec.key_length;
  take.columns = columns;
  ORCD_CUDA(kernels::launch_take_queries(take, stream_));
}

/// What heads have gathered times the sigmoids of their queries' gates.
void cuda_forward::gate_attended(std::uint32_t layer, std::uint32_t columns) {
  const engine::layer_spec& spec = spec_.layers[layer];
  kernels::gate_heads_args gate;
  gate.x = at<__half>(layout_.attended);
  gate.x_stride = kernels::padded_cols(spec.attended_rows());
  gate.gates = at<float>(layout_.recurrent.gated_query);
  gate.gate_stride = 2 * spec.q_rows();
  gate.heads = spec.heads;
  gate.width = spec.value_length;
  gate.columns = columns;
  ORCD_CUDA(kernels::launch_gate_heads(gate, stream_));
}

/// Of rows in `hidden`.
void cuda_forward::square_relu(std::uint32_t width, std::uint32_t rows, __half* out) const {
  kernels::squared_relu_args args;
  args.x = at<float>(layout_.hidden);
  args.width = width;
  args.rows = rows;
  args.out = out;
  args.out_stride = kernels::padded_cols(width);
  ORCD_CUDA(kernels::launch_squared_relu(args, stream_));
}

/// Experts with up and down alone, whose inputs and outputs lie where those of others do.
void cuda_forward::ungated_experts(std::uint32_t layer, std::uint32_t columns) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const std::uint32_t pairs = columns * spec_.experts_used;
  const std::uint32_t width = spec_.layers[layer].width_of_expert();
  kernels::tiled_matmul_args up, down;
  up.matmul.w[0] = w.expert_up;
  up.matmul.bias[0] = w.expert_up_bias;
  up.matmul.out = at<float>(layout_.hidden);
  up.matmul.out_stride = width;
  up.matmul.columns = pairs;
  up.matmul.x_divisor = spec_.experts_used;
  up.matmul.experts = at<std::int32_t>(layout_.chosen);
  down.matmul = args_.expert_down_of(layer, pairs);
  kernels::route_args route = args_.route_of(layer, columns);
  route.normed = args_.norm_outside(up.matmul);
  ORCD_CUDA(kernels::launch_route(route, expert_groups_of(spec_), stream_));
  const bool few = kernels::few_pairs(pairs, spec_.experts);
  const kernels::expert_tiles tiles =
      few ? kernels::expert_tiles{std::min(columns_that_fit(up.matmul), columns_that_fit(down.matmul)),
                                  kernels::half_order::natural}
          : kernels::expert_tiles_of(pairs, spec_.experts, false);
  sort_experts(pairs, tiles.columns, up, down);
  multiply_experts(up);
  square_relu(width, pairs, at<__half>(layout_.expert_activated));
  multiply_experts(down);
  ORCD_CUDA(kernels::launch_combine_experts(args_.combine_of(columns), stream_));
}

/// The expert that every token has, likewise.
void cuda_forward::ungated_shared(std::uint32_t layer, std::uint32_t columns,
                                  kernels::packed_matmul_args& down) {
  const std::uint32_t width = spec_.layers[layer].shared_size;
  kernels::packed_matmul_args up;
  up.w[0] = weights_.layers[layer].shared_up;
  args_.norm_outside(up);
  up.out = at<float>(layout_.hidden);
  up.out_stride = width;
  multiply(up, nullptr, columns);
  square_relu(width, columns, at<__half>(layout_.shared_activated));
  multiply(down, nullptr, columns);
}

}  // namespace orcd::gpu
