// The forward pass of models with post-norm, and the states from which embeddings are made.
#include <cuda_fp16.h>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "kernels/layer/encoder.hpp"

namespace orcd::gpu {

void cuda_forward::add_positions(std::uint32_t columns) {
  kernels::add_positions_args args;
  args.x = at<float>(layout_.residual);
  args.positions = weights_.positions;
  args.types = weights_.token_types;
  args.steps = steps();
  args.width = spec_.embedding;
  args.columns = columns;
  args.second_segment = spec_.token_types > 1 ? form_.second_segment : 0;
  ORCD_CUDA(kernels::launch_add_positions(args, stream_));
}

/// Post-norm: normalises the residual stream in place and leaves its f16 copy as the next product's input.
void cuda_forward::post_norm(const float* weight, const float* bias, std::uint32_t columns) {
  kernels::post_norm_args args;
  args.x = at<float>(layout_.residual);
  args.weight = weight;
  args.bias = bias;
  args.width = spec_.embedding;
  args.columns = columns;
  args.eps = static_cast<float>(spec_.rms_eps);
  args.out = at<__half>(layout_.normed);
  args.out_stride = kernels::padded_cols(spec_.embedding);
  ORCD_CUDA(kernels::launch_post_norm(args, stream_));
}

void cuda_forward::ungated_ffn(std::uint32_t layer, std::uint32_t columns) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const std::uint32_t ffn = spec_.layers[layer].ffn_size;
  kernels::packed_matmul_args up;
  up.w[0] = w.up;
  up.bias[0] = w.up_bias;
  up.x = at<__half>(layout_.normed);
  up.x_stride = kernels::padded_cols(spec_.embedding);
  up.out = at<float>(layout_.hidden);
  up.out_stride = ffn;
  multiply(up, nullptr, columns);
  kernels::gelu_to_half_args gelu;
  gelu.x = at<float>(layout_.hidden);
  gelu.width = ffn;
  gelu.columns = columns;
  gelu.out = at<__half>(layout_.activated);
  gelu.out_stride = kernels::padded_cols(ffn);
  ORCD_CUDA(kernels::launch_gelu_to_half(gelu, stream_));
  kernels::packed_matmul_args down = args_.down_of(layer);
  multiply(down, nullptr, columns);
}

void cuda_forward::run_post_norm(std::uint32_t columns) {
  const auto* residual = at<float>(layout_.residual);
  const std::uint64_t width = std::uint64_t{columns} * spec_.embedding;
  embed(columns);
  if (spec_.learned_positions) add_positions(columns);
  post_norm(weights_.embedding_norm, weights_.embedding_norm_bias, columns);
  tap("embedding", 0, residual, width);
  for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
    const cuda_layer_weights& w = weights_.layers[layer];
    kernels::packed_matmul_args qkv = args_.qkv_of(layer);
    qkv.x = at<__half>(layout_.normed);
    qkv.x_stride = kernels::padded_cols(spec_.embedding);
    attention(layer, columns, {.chunks = {&columns, 1}}, qkv, nullptr);
    post_norm(w.attn_output_norm, w.attn_output_norm_bias, columns);
    ungated_ffn(layer, columns);
    post_norm(w.layer_output_norm, w.layer_output_norm_bias, columns);
    tap("layer_out", layer, residual, width);
  }
}

/// Waits for the stream.
void cuda_forward::copy_states(std::uint32_t first, std::span<float> to) const {
  ORCD_ENSURE(to.size() % spec_.embedding == 0);
  const float* from = at<float>(layout_.residual) + std::uint64_t{first} * spec_.embedding;
  ORCD_CUDA(cudaMemcpyAsync(to.data(), from, to.size_bytes(), cudaMemcpyDeviceToHost, stream_));
  ORCD_CUDA(cudaStreamSynchronize(stream_));
}

}  // namespace orcd::gpu
