// Queries and cached rows of models with latents (engine::latent_spec).
#include <cstring>

#include "gpu/host/host_forward.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/rms_norm.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

/// Each head's vector by that head's matrix.
void host_forward::multiply_heads(const engine::tensor_view& matrices, head_rows<const float> from,
                                  head_rows<float> to) {
  work_.products.clear();
  for (std::uint64_t head = 0; head < matrices.experts(); ++head) {
    work_.products.push_back({.weights = matrix_of(matrices, head),
                              .x = from.at + head * from.head,
                              .y = to.at + head * to.head,
                              .x_stride = from.column,
                              .y_stride = to.column,
                              .columns = columns_});
  }
  host::matmul(work_.products, pool_);
}

/// Q by its two factors, with a norm between them.
void host_forward::project_factored_query(const engine::layer_weights& weights) {
  const std::uint32_t rank = spec_.latent.query_rank;
  const kernels::matmul_args first = {.weights = matrix_of(weights.attn_q_a),
                                      .x = work_.normed,
                                      .y = work_.latent_factor,
                                      .x_stride = spec_.embedding,
                                      .y_stride = rank,
                                      .columns = columns_};
  host::matmul({&first, 1}, pool_);
  normalise_in_place(weights.attn_q_a_norm, work_.latent_factor, rank, spec_.rms_eps);
  const kernels::matmul_args second = {.weights = matrix_of(weights.attn_q_b),
                                       .x = work_.latent_factor,
                                       .y = work_.latent_query,
                                       .x_stride = rank,
                                       .y_stride = weights.attn_q_b.rows(),
                                       .columns = columns_};
  host::matmul({&second, 1}, pool_);
}

/// Q, in the latent's space, and the row that is cached, in one row; the last values of each are not rotated
/// yet.
void host_forward::project_latents(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const engine::latent_spec& latent = spec_.latent;
  const std::uint32_t heads = spec_.layers[layer].heads;
  const layer_widths width = widths(layer);
  const std::size_t query = std::size_t{heads} * latent.key_length;
  work_.products.clear();
  work_.products.push_back({.weights = matrix_of(weights.attn_kv_a),
                            .x = work_.normed,
                            .y = work_.qkv + width.q,
                            .x_stride = spec_.embedding,
                            .y_stride = width.qkv,
                            .columns = columns_});
  if (weights.attn_q) {
    work_.products.push_back({.weights = matrix_of(weights.attn_q),
                              .x = work_.normed,
                              .y = work_.latent_query,
                              .x_stride = spec_.embedding,
                              .y_stride = query,
                              .columns = columns_});
  }
  host::matmul(work_.products, pool_);
  if (weights.attn_q_a) project_factored_query(weights);
  host::rms_norm({.x = work_.qkv + width.q,
                  .out = work_.qkv + width.q,
                  .weight = floats_of(weights.attn_kv_a_norm),
                  .x_stride = width.qkv,
                  .out_stride = width.qkv,
                  .rows = columns_,
                  .width = latent.rank,
                  .eps = static_cast<float>(spec_.rms_eps)},
                 pool_);
  multiply_heads(weights.attn_k_b, {work_.latent_query, latent.key_length, query},
                 {work_.qkv, spec_.layers[layer].key_length, width.qkv});
  for (std::uint32_t c = 0; c < columns_; ++c) {
    for (std::uint32_t h = 0; h < heads; ++h) {
      const float* const from = work_.latent_query + c * query + std::size_t{h} * latent.key_length;
      std::memcpy(work_.qkv + c * std::size_t{width.qkv} + std::size_t{h} * spec_.layers[layer].key_length +
                      latent.rank,
                  from + latent.unrotated(), latent.rotated * sizeof(float));
    }
  }
  tap("qkv", layer, work_.qkv, std::uint64_t{columns_} * width.qkv);
}

}  // namespace orcd::gpu
