#include "gpu/cuda/cuda_layer_inputs.hpp"

#include <cuda_fp16.h>

#include <cmath>

#include "gpu/cuda/cuda_error.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "kernels/layer/stream.hpp"

namespace orcd::gpu {

/// The stream as rows of f16. `fits`: each divided by a power of two that brings it into the range of f16, in
/// which the streams of real models may not be; the divisors are kept.
kernels::packed_matmul_args cuda_layer_inputs::of_stream(std::uint32_t columns, bool fits) const {
  kernels::state_to_half_args half;
  half.x = work_.at<float>(layout_.residual);
  half.width = spec_.embedding;
  half.columns = columns;
  half.out = work_.at<__half>(layout_.normed);
  half.out_stride = kernels::padded_cols(spec_.embedding);
  if (fits) half.factors = work_.at<float>(layout_.layer_inputs.factors);
  ORCD_CUDA(kernels::launch_state_to_half(half, stream_));
  kernels::packed_matmul_args args;
  args.x = half.out;
  args.x_stride = half.out_stride;
  return args;
}

/// The projection is of the scaled embedding over the root of its width, which is the embedding itself.
void cuda_layer_inputs::make(const kernels::step_token* steps, std::uint32_t columns) const {
  kernels::packed_embed_args rows;
  rows.table = weights_.layer_input_embd;
  rows.steps = steps;
  rows.columns = columns;
  rows.out = work_.at<float>(layout_.layer_inputs.values);
  ORCD_CUDA(kernels::launch_packed_embed(rows, stream_));
  kernels::packed_matmul_args projected = of_stream(columns, false);
  projected.w[0] = weights_.layer_input_proj;
  projected.out = work_.at<float>(layout_.hidden);
  projected.out_stride = all();
  multiply_(projected, columns);
  kernels::layer_inputs_args args;
  args.projected = projected.out;
  args.table = rows.out;
  args.weight = weights_.layer_input_norm;
  args.width = spec_.layer_inputs;
  args.layers = static_cast<std::uint32_t>(spec_.layers.size());
  args.columns = columns;
  args.projected_scale = static_cast<float>(spec_.embedding_scale / std::sqrt(double{1.0} * spec_.embedding));
  args.table_scale = static_cast<float>(std::sqrt(double{1.0} * spec_.layer_inputs));
  args.eps = static_cast<float>(spec_.rms_eps);
  ORCD_CUDA(kernels::launch_layer_inputs(args, stream_));
}

void cuda_layer_inputs::multiply(std::uint32_t layer, std::uint32_t columns) const {
  const cuda_layer_weights& w = weights_.layers[layer];
  const std::uint32_t width = spec_.layer_inputs;
  kernels::packed_matmul_args gate = of_stream(columns, true);
  gate.w[0] = w.layer_input_gate;
  gate.out = work_.at<float>(layout_.hidden);
  gate.out_stride = width;
  multiply_(gate, columns);
  kernels::gelu_tanh_args activated;
  activated.x = gate.out;
  activated.x_factors = work_.at<float>(layout_.layer_inputs.factors);
  activated.factors = work_.at<float>(layout_.layer_inputs.values) + std::uint64_t{layer} * width;
  activated.factors_stride = all();
  activated.width = width;
  activated.columns = columns;
  activated.out = work_.at<__half>(layout_.activated);
  activated.out_stride = kernels::padded_cols(width);
  ORCD_CUDA(kernels::launch_gelu_tanh(activated, stream_));
  kernels::packed_matmul_args projected;
  projected.w[0] = w.layer_input_proj;
  projected.x = activated.out;
  projected.x_stride = activated.out_stride;
  projected.out = work_.at<float>(layout_.half_out);
  projected.out_stride = spec_.embedding;
  multiply_(projected, columns);
}

}  // namespace orcd::gpu
