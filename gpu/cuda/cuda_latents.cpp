// The attention half of layers with latents (engine::latent_spec), up to the output product. Its products
// with a matrix a head go through pairs of a column and a head, sorted by head, as those of experts do.
#include <cuda_fp16.h>

#include <vector>

#include "gpu/cuda/cuda_forward.hpp"
#include "kernels/attention/latent_attention.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "kernels/layer/experts.hpp"
#include "kernels/layer/stream.hpp"
#include "kernels/product/packed_matmul.hpp"

namespace orcd::gpu {

/// Each pair's head; pairs of a column lie together.
void cuda_forward::write_head_ids() {
  const std::uint32_t heads = spec_.layers.front().heads;
  std::vector<std::int32_t> ids(std::size_t{extents_.columns()} * heads);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % heads);
  ORCD_CUDA(cudaMemcpy(at<std::int32_t>(layout_.latent.head_ids), ids.data(),
                       ids.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice));
}

/// For all layers of a pass, whose heads are as many.
void cuda_forward::sort_heads(std::uint32_t columns) {
  const std::uint32_t heads = spec_.layers.front().heads;
  const std::uint32_t pairs = columns * heads;
  const bool few = columns <= kernels::matvec_columns_best;
  const std::uint32_t tile = few ? kernels::matvec_columns_max : kernels::expert_tile_columns(pairs, heads);
  const kernels::sort_experts_args sort{at<std::int32_t>(layout_.latent.head_ids),
                                        pairs,
                                        heads,
                                        at<std::int32_t>(layout_.latent.order),
                                        at<kernels::expert_tile>(layout_.latent.tiles),
                                        at<std::int32_t>(layout_.latent.tile_count),
                                        tile};
  ORCD_CUDA(kernels::launch_sort_experts(sort, stream_));
  heads_.order = sort.order;
  heads_.tiles = sort.tiles;
  heads_.tile_count = sort.tile_count;
  heads_.tiles_max = kernels::sorted_tiles_max(pairs, heads, tile);
  heads_.tiles_likely = kernels::sorted_tiles_likely(pairs, heads, tile);
  heads_.tile_columns = tile;
}

/// Each pair's vector, f16 at `from`, by its head's matrix; f32 at `to`.
void cuda_forward::multiply_heads(const kernels::packed_matrix& matrices, std::uint64_t from,
                                  std::uint64_t to, std::uint32_t columns) {
  kernels::tiled_matmul_args product = heads_;
  kernels::packed_matmul_args& args = product.matmul;
  args.w[0] = matrices;
  args.columns = columns * spec_.layers.front().heads;
  args.x = at<__half>(from);
  args.x_stride = kernels::padded_cols(matrices.cols);
  args.out = at<float>(to);
  args.out_stride = matrices.rows;
  args.experts = at<std::int32_t>(layout_.latent.head_ids);
  multiply_experts(product);
}

/// By one matrix, or by two with a norm between them.
void cuda_forward::project_latent_query(std::uint32_t layer, std::uint32_t columns) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const std::uint32_t rank = spec_.latent.query_rank;
  kernels::packed_matmul_args query;
  if (rank == 0) {
    query.w[0] = w.q;
    args_.norm_outside(query);
  } else {
    kernels::packed_matmul_args first;
    first.w[0] = w.q_a;
    args_.norm_outside(first);
    first.out = at<float>(layout_.latent.factor);
    first.out_stride = rank;
    multiply(first, nullptr, columns);
    query.w[0] = w.q_b;
    query.x = at<__half>(layout_.latent.factor_half);
    query.x_stride = kernels::padded_cols(rank);
    ORCD_CUDA(kernels::launch_norm_to_half(
        {first.out, w.q_a_norm, rank, columns, nullptr, static_cast<float>(spec_.rms_eps),
         at<__half>(layout_.latent.factor_half), query.x_stride},
        stream_));
  }
  query.out = at<float>(layout_.latent.query);
  query.out_stride = query.w[0].rows;
  multiply(query, nullptr, columns);
}

/// Rows into the cache, and queries in the latent's space.
void cuda_forward::project_latents(std::uint32_t layer, std::uint32_t columns) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const engine::layer_spec& spec = spec_.layers[layer];
  const engine::latent_spec& latent = spec_.latent;
  project_latent_query(layer, columns);
  kernels::packed_matmul_args row;
  row.w[0] = w.kv_a;
  args_.norm_outside(row);
  row.out = at<float>(layout_.qkv);
  row.out_stride = latent.rank + latent.rotated;
  multiply(row, nullptr, columns);
  kernels::latent_store_args store;
  store.query = at<float>(layout_.latent.query);
  store.row = row.out;
  store.norm = w.kv_a_norm;
  store.norm_eps = static_cast<float>(spec_.rms_eps);
  store.steps = steps();
  store.columns = columns;
  store.heads = spec.heads;
  store.rank = latent.rank;
  store.unrotated = latent.unrotated();
  store.rotated = latent.rotated;
  store.interleaved = spec.rope.pairing == engine::rope_pairing::interleaved;
  store.inv_freq = args_.inv_freq_of(layer);
  store.magnitude = args_.magnitude_of(layer);
  store.unrotated_out = at<__half>(layout_.latent.unrotated);
  store.unrotated_stride = kernels::padded_cols(latent.unrotated());
  store.rotated_out = at<__half>(layout_.latent.rotated);
  store.cache = pages_.latents_of(layer);
  ORCD_CUDA(kernels::launch_latent_store(store, stream_));
  multiply_heads(w.k_b, layout_.latent.unrotated, layout_.latent.query_in_latent, columns);
}

/// Of `columns` columns from `first` on.
void cuda_forward::attend_latents(std::uint32_t columns, const kernels::latent_cache& cache,
                                  std::uint32_t first, bool spread) const {
  if (columns == 0) return;
  const engine::latent_spec& latent = spec_.latent;
  const std::uint32_t heads = spec_.layers.front().heads;
  const std::uint64_t pair = std::uint64_t{first} * heads;
  kernels::latent_attention_args args;
  args.latent_q = at<float>(layout_.latent.query_in_latent) + pair * latent.rank;
  args.rotated_q = at<__half>(layout_.latent.rotated) +
                   pair * (kernels::padded_latent_row(latent.rank, latent.rotated) - latent.rank);
  args.steps = steps() + first;
  args.columns = columns;
  args.heads = heads;
  args.rank = latent.rank;
  args.rotated = latent.rotated;
  args.scale = static_cast<float>(spec_.attention_scale);
  args.out_stride = kernels::padded_cols(latent.rank);
  args.out = at<__half>(layout_.latent.attended) + pair * args.out_stride;
  args.cache = cache;
  args.spread = spread;
  args.partials = at<float>(layout_.partials);
  args.arrivals = at<std::uint32_t>(layout_.arrivals);
  ORCD_CUDA(kernels::launch_latent_attention(args, stream_));
}

/// From the norm of the residual stream to what the heads give, in f16.
void cuda_forward::latent_half(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass) {
  project_latents(layer, columns);
  const kernels::latent_cache cache = pages_.latents_of(layer);
  const std::uint32_t prompts = columns - pass.decodes;
  attend_latents(prompts, cache, 0, false);
  attend_latents(pass.decodes, cache, prompts, true);
  multiply_heads(weights_.layers[layer].v_b, layout_.latent.attended, layout_.latent.values, columns);
  kernels::state_to_half_args halves;
  halves.x = at<float>(layout_.latent.values);
  halves.width = args_.attended_width(layer);
  halves.columns = columns;
  halves.out = at<__half>(layout_.attended);
  halves.out_stride = kernels::padded_cols(halves.width);
  ORCD_CUDA(kernels::launch_state_to_half(halves, stream_));
}

}  // namespace orcd::gpu
