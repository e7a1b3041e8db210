// Which kernels a step launches, in which order and with which buffers.
#include "gpu/cuda/cuda_forward.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <numeric>

#include "engine/base/ensure.hpp"
#include "engine/model/rope.hpp"
#include "gpu/plan/decode_program_plan.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/expert_groups_of.hpp"
#include "kernels/attention/paged_attention.hpp"
#include "kernels/decode_program/decode_program_launch.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "kernels/layer/experts.hpp"
#include "kernels/product/packed_matmul.hpp"

namespace orcd::gpu {
namespace {

/// Whether the throughput product can do it: gate and up must have one format. Other pairs go to the
/// few-column product.
bool tiled_kernel_takes(const kernels::packed_matmul_args& args) {
  return !is_paired(args) || args.w[0].format == args.w[1].format;
}

}  // namespace

/// Columns of a launch of the few-column product, a power of two.
std::uint32_t cuda_forward::columns_that_fit(const kernels::packed_matmul_args& args) {
  std::uint32_t columns = kernels::matvec_columns_max;
  while (columns > 1 && !kernels::balanced_matvec_takes(args, columns)) columns /= 2;
  return columns;
}

cuda_forward::cuda_forward(const engine::model& m, const cuda_weights& weights, const cuda_extents& extents,
                           const vram_arena& work, const vram_arena& cache, cudaStream_t stream,
                           layer_tap tap, const given_media& media)
    : model_(m),
      spec_(m.spec),
      weights_(weights),
      extents_(extents),
      layout_(m.spec, extents),
      work_(work),
      stream_(stream),
      pages_(m.spec, extents, cache, work.at<std::int32_t>(layout_.page_tables), stream),
      media_(media),
      args_(m, weights, extents.context, layout_, work, pages_, media_),
      layer_inputs_(m.spec, weights, layout_, work, stream,
                    [this](kernels::packed_matmul_args& args, std::uint32_t columns) {
                      multiply(args, nullptr, columns);
                    }),
      recurrence_(m.spec, weights, extents, layout_, work, cache, stream,
                  [this](kernels::packed_matmul_args& args, std::uint32_t columns) {
                    multiply(args, nullptr, columns);
                  }),
      tap_(std::move(tap)) {
  ORCD_ENSURE(work.bytes() >= layout_.bytes);
  if (spec_.latent) write_head_ids();
  if (program_sequences(spec_, extents_) > 0 && !tap_) write_program();
  // A copy from pageable memory may still be under way, and the step's stream does not wait for it.
  ORCD_CUDA(cudaStreamSynchronize(nullptr));
}

void cuda_forward::ban(std::span<const engine::token_id> tokens) {
  std::vector<std::uint32_t> bits((spec_.vocab + 31) / 32);
  for (const engine::token_id id : tokens) {
    if (id >= 0 && static_cast<std::uint32_t>(id) < spec_.vocab)
      bits[static_cast<std::size_t>(id) / 32] |= 1U << id % 32;
  }
  ORCD_CUDA(cudaMemcpy(at<std::uint32_t>(layout_.banned), bits.data(), bits.size() * sizeof(std::uint32_t),
                       cudaMemcpyHostToDevice));
  ORCD_CUDA(cudaStreamSynchronize(nullptr));
  bans_ = !tokens.empty();
  for (kernels::decode_program& program : programs_) program.banned = banned();
  if (adapted_program_) adapted_program_->banned = banned();
}

void cuda_forward::prefill(const pass_columns& pass, std::uint32_t rows) {
  const std::uint32_t columns = std::accumulate(pass.chunks.begin(), pass.chunks.end(), pass.decodes);
  ORCD_ENSURE(!pass.chunks.empty() && columns <= extents_.columns() && rows <= extents_.sampling());
  run(columns, pass);
  if (rows > 0) head(rows, sample_rows());
}

void cuda_forward::decode(std::uint32_t sequences) {
  ORCD_ENSURE(sequences > 0 && sequences <= extents_.slots);
  if (is_one_kernel(sequences)) {
    embed(sequences);
    scale_embeddings(sequences);
    ORCD_CUDA(kernels::launch_decode_program(program_of_step(sequences), stream_));
    if (sequences == 1 && program_has_head_) return;
  } else {
    run(sequences, {.decodes = sequences});
  }
  head(sequences, nullptr);
}

void cuda_forward::decode_in_a_row(std::uint32_t columns) {
  ORCD_ENSURE(columns > 0 && columns <= extents_.sampling());
  run(columns, {.decodes = columns, .in_a_row = true});
  head(columns, nullptr);
}

/// Writes the embeddings of the step's tokens to the residual stream.
void cuda_forward::embed(std::uint32_t columns) {
  kernels::packed_embed_args args;
  args.table = weights_.embedding;
  args.steps = steps();
  args.columns = columns;
  args.out = at<float>(layout_.residual);
  ORCD_CUDA(kernels::launch_packed_embed(args, stream_));
}

void cuda_forward::run(std::uint32_t columns, const pass_columns& pass) {
  prepare_adapters(columns);
  if (spec_.norms == engine::norm_placement::after) return run_post_norm(columns);
  auto* residual = at<float>(layout_.residual);
  embed(columns);
  add_residual_lora(engine::lora_target::token_embd, 0, {}, columns);
  if (spec_.layer_inputs > 0) {
    // These are of the stream before it is scaled, which rows of media are not.
    const auto scale = static_cast<float>(1.0 / spec_.embedding_scale);
    if (pass.given > 0) media_.give(pass.given, residual, scale, stream_);
    layer_inputs_.make(steps(), columns);
  }
  scale_embeddings(columns);
  if (pass.given > 0) media_.give(pass.given, residual, 1.0F, stream_);
  tap("embedding", 0, residual, std::uint64_t{columns} * spec_.embedding);
  if (spec_.latent) sort_heads(columns);
  if (recurrence_.any())
    recurrence_.begin_pass(
        columns, pass.chunks.empty() ? 0 : pass.decodes + static_cast<std::uint32_t>(pass.chunks.size()));
  for (std::uint32_t layer = 0; layer < spec_.layers.size(); ++layer) {
    if (spec_.integer_activations) {
      ternary_layer(layer, columns, pass);
    } else if (has_plain_layers(spec_)) {
      half_layer(layer, columns, pass);
    } else {
      other_layer(layer, columns, pass);
    }
    if (pass.given > 0 && layer < spec_.deepstack_layers)
      media_.add_part(pass.given, residual, layer, stream_);
    tap("layer_out", layer, residual, std::uint64_t{columns} * spec_.embedding);
  }
}

/// A layer whose products take activations in f16.
void cuda_forward::half_layer(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass) {
  kernels::packed_matmul_args qkv = args_.qkv_of(layer);
  attention(layer, columns, pass, qkv, weights_.layers[layer].attn_norm);
  if (spec_.layers[layer].ffn == engine::ffn_kind::moe) {
    expert_ffn(layer, columns);
  } else {
    dense_ffn(layer, columns);
  }
}

/// Makes the norm of `columns` rows of the residual stream a product's input; `residual_rows` names them,
/// null: the first ones.
void cuda_forward::take_norm(kernels::packed_matmul_args& args, const float* norm, std::uint32_t columns,
                             const std::int32_t* residual_rows) {
  __half* const normed = args_.norm_outside(args);
  ORCD_CUDA(kernels::launch_norm_to_half(
      {at<float>(layout_.residual), norm, spec_.embedding, columns, residual_rows,
       static_cast<float>(spec_.residual_eps()), normed, args.x_stride, args.x_order},
      stream_));
}

/// One product, of the residual stream's norm or, if `norm` is null, of args.x; chooses the kernel by the
/// number of columns.
void cuda_forward::multiply(kernels::packed_matmul_args& args, const float* norm, std::uint32_t columns) {
  args.columns = columns;
  if (norm != nullptr) take_norm(args, norm, columns, nullptr);
  kernels::tiled_matmul_args product;
  product.matmul = args;
  if (kernels::balanced_matvec_best(args, columns)) {
    ORCD_CUDA(kernels::launch_balanced_matvec(product, stream_, shared_bytes_left()));
  } else if (!is_paired(args) && images_best({args}, columns)) {
    multiply_image(args);
  } else if (tiled_kernel_takes(args)) {
    ORCD_CUDA(kernels::launch_packed_matmul(product, stream_));
  } else {
    multiply_in_parts(product);
  }
}

/// Whether multiply() takes the throughput product.
bool cuda_forward::is_throughput_product(const kernels::packed_matmul_args& args, std::uint32_t columns) {
  return !kernels::balanced_matvec_best(args, columns) && tiled_kernel_takes(args);
}

/// The order of their inputs with which these products together are estimated to be faster. Each leaves the
/// next one's input in it.
kernels::half_order cuda_forward::best_order(std::initializer_list<kernels::packed_matmul_args> products,
                                             std::uint32_t columns) {
  constexpr std::uint32_t columns_least = 256;  // measured from there on
  using enum kernels::half_order;
  const auto takes = [&](const auto& args) { return is_throughput_product(args, columns); };
  if (columns < columns_least || !std::all_of(products.begin(), products.end(), takes)) return natural;
  const auto cycles = [&](kernels::half_order order) {
    std::uint64_t sum = 0;
    for (const kernels::packed_matmul_args& args : products) {
      kernels::tiled_matmul_args product;
      product.matmul = args;
      product.matmul.columns = columns;
      product.matmul.x_order = order;
      // What cannot run takes so long that the sum may overflow.
      if (__builtin_add_overflow(sum, kernels::packed_matmul_cycles(product), &sum)) return ~std::uint64_t{0};
    }
    return sum;
  };
  return cycles(packed) < cycles(natural) ? packed : natural;
}

/// By the few-column product, as many columns at a time as fit.
void cuda_forward::multiply_in_parts(const kernels::tiled_matmul_args& product) {
  const kernels::packed_matmul_args& args = product.matmul;
  const std::uint32_t most = columns_that_fit(args);
  kernels::tiled_matmul_args part = product;
  for (std::uint32_t first = 0; first < args.columns; first += most) {
    part.matmul.columns = std::min(most, args.columns - first);
    part.matmul.x = args.x + std::uint64_t{first} * args.x_stride;
    if (args.out != nullptr) part.matmul.out = args.out + std::uint64_t{first} * args.out_stride;
    if (args.act != nullptr) part.matmul.act = args.act + std::uint64_t{first} * args.act_stride;
    ORCD_CUDA(kernels::launch_balanced_matvec(part, stream_, shared_bytes_left()));
  }
}

/// `norm` is that of `qkv`, as for multiply().
void cuda_forward::attention(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass,
                             kernels::packed_matmul_args& qkv, const float* norm) {
  // Adapters read in natural order.
  if (norm != nullptr && !adapts()) qkv.x_order = best_order({args_.normed(qkv)}, columns);
  multiply(qkv, norm, columns);
  add_qkv_lora(layer, {qkv.x, nullptr, qkv.x_stride}, columns);
  tap("qkv", layer, qkv.out, std::uint64_t{columns} * qkv.out_stride);
  attend(layer, columns, pass);
  kernels::packed_matmul_args o = args_.o_of(layer);
  multiply(o, nullptr, columns);
  add_residual_lora(engine::lora_target::attn_output, layer, {o.x, nullptr, o.x_stride}, columns);
  tap("attn_residual", layer, o.out, std::uint64_t{columns} * spec_.embedding);
}

/// From the products for queries, keys and values to what the heads give.
void cuda_forward::attend(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass) {
  const std::uint32_t prompts = columns - pass.decodes;
  kernels::decode_attention_args all = args_.attention_of(layer, columns);
  all.attend.end = form_.end;
  // Who decodes one token stores its key and value beside reading those before it.
  kernels::rope_store_args stored = all.rope;
  stored.columns = pass.in_a_row ? columns : prompts;
  if (stored.columns > 0) ORCD_CUDA(kernels::launch_rope_store(stored, stream_));
  if (prompts > 0) {
    kernels::attention_args_paged chunks = all.attend;
    chunks.columns = prompts;
    ORCD_CUDA(kernels::launch_attention_prefill(chunks, pass.chunks.data(),
                                                static_cast<std::uint32_t>(pass.chunks.size()), stream_));
  }
  if (pass.decodes > 0) {
    kernels::decode_attention_args decode = all;
    decode.rope.qkv += std::uint64_t{prompts} * decode.rope.stride;
    decode.attend.q += std::uint64_t{prompts} * decode.attend.heads * decode.attend.padded_width;
    decode.attend.out += std::uint64_t{prompts} * decode.attend.out_stride;
    decode.rope.steps = decode.attend.steps = steps() + prompts;
    if (decode.rope.turns != nullptr) decode.rope.turns += prompts;
    decode.rope.columns = decode.attend.columns = pass.decodes;
    decode.stored = pass.in_a_row;
    ORCD_CUDA(kernels::launch_attention_decode(decode, stream_));
  }
  if (spec_.layers[layer].query_gate) gate_attended(layer, columns);
  const kernels::attention_args_paged& attend = all.attend;
  if (attend.heads * attend.width == attend.out_stride)
    tap("attended", layer, attend.out, std::uint64_t{columns} * attend.out_stride);
}

void cuda_forward::dense_ffn(std::uint32_t layer, std::uint32_t columns) {
  kernels::packed_matmul_args down = args_.down_of(layer);
  if (images_best({args_.normed(args_.gate_up_of(layer)), down}, columns))
    return dense_ffn_images(layer, columns);
  if (!adapts()) down.x_order = best_order({args_.normed(args_.gate_up_of(layer)), down}, columns);
  gate_up(layer, weights_.layers[layer].ffn_norm, columns, down.x_order);
  multiply(down, nullptr, columns);
  add_residual_lora(engine::lora_target::ffn_down, layer, {down.x, nullptr, down.x_stride}, columns);
}

/// Sorts pairs of a token and an expert by expert.
void cuda_forward::sort_experts(std::uint32_t pairs, std::uint32_t tile_columns,
                                kernels::tiled_matmul_args& gate_up, kernels::tiled_matmul_args& down) {
  const kernels::sort_experts_args sort{at<std::int32_t>(layout_.chosen),
                                        pairs,
                                        spec_.experts,
                                        at<std::int32_t>(layout_.order),
                                        at<kernels::expert_tile>(layout_.tiles),
                                        at<std::int32_t>(layout_.tile_count),
                                        tile_columns};
  ORCD_CUDA(kernels::launch_sort_experts(sort, stream_));
  for (kernels::tiled_matmul_args* args : {&gate_up, &down}) {
    args->order = sort.order;
    args->tiles = sort.tiles;
    args->tile_count = sort.tile_count;
    args->tiles_max = kernels::sorted_tiles_max(pairs, spec_.experts, tile_columns);
    args->tiles_likely = kernels::sorted_tiles_likely(pairs, spec_.experts, tile_columns);
    args->tile_columns = tile_columns;
  }
}

void cuda_forward::multiply_experts(const kernels::tiled_matmul_args& args) {
  if (args.tile_columns <= kernels::matvec_columns_max) {
    ORCD_CUDA(kernels::launch_balanced_matvec(args, stream_));
  } else {
    ORCD_CUDA(kernels::launch_packed_matmul(args, stream_));
  }
}

/// Whether a layer's experts can read in packed order: if what gate and up leave fills whole groups of 64,
/// and a shared expert takes that order, too.
bool cuda_forward::experts_take_packed(std::uint32_t layer, std::uint32_t columns) const {
  return weights_.layers[layer].expert_down.cols % kernels::group_cols == 0 &&
         shared_takes_packed(layer, columns);
}

/// Returns the order in which the router has left the norm.
kernels::half_order cuda_forward::expert_ffn(std::uint32_t layer, std::uint32_t columns) {
  if (!has_gate(spec_.activation)) {
    ungated_experts(layer, columns);
    return kernels::half_order::natural;
  }
  if (experts_take_images(layer, columns)) return expert_ffn_images(layer, columns);
  const std::uint32_t pairs = columns * spec_.experts_used;
  kernels::tiled_matmul_args gate_up;
  kernels::tiled_matmul_args down;
  gate_up.matmul = args_.expert_gate_up_of(layer, pairs);
  down.matmul = args_.expert_down_of(layer, pairs);
  const std::uint32_t narrow = std::min(columns_that_fit(gate_up.matmul), columns_that_fit(down.matmul));
  // Rows so long that few columns fit are read again for every few tokens of an expert.
  const bool few = kernels::few_pairs(pairs, spec_.experts) &&
                   (narrow == kernels::matvec_columns_max || columns <= kernels::matvec_columns_best);
  const bool is_narrow = few || !tiled_kernel_takes(gate_up.matmul);
  const kernels::expert_tiles tiles =
      is_narrow ? kernels::expert_tiles{narrow, kernels::half_order::natural}
                : kernels::expert_tiles_of(pairs, spec_.experts, experts_take_packed(layer, columns));
  gate_up.matmul.x_order = down.matmul.x_order = tiles.order;
  kernels::route_args route = args_.route_of(layer, columns);
  route.normed = args_.norm_outside(gate_up.matmul);
  route.normed_order = tiles.order;
  if (spec_.router_norm) {
    route.normed = nullptr;
    take_norm(gate_up.matmul, weights_.layers[layer].ffn_norm_2, columns, nullptr);
  }
  ORCD_CUDA(kernels::launch_route(route, expert_groups_of(spec_), stream_));
  sort_experts(pairs, tiles.columns, gate_up, down);
  multiply_experts(gate_up);
  multiply_experts(down);
  ORCD_CUDA(kernels::launch_combine_experts(args_.combine_of(columns), stream_));
  return tiles.order;
}

/// Logits of `rows` rows of the residual stream, named as for take_norm().
void cuda_forward::head(std::uint32_t rows, const std::int32_t* residual_rows) {
  kernels::packed_matmul_args logits = args_.head_of();
  if (spec_.norm == engine::norm_kind::layer) {
    args_.norm_outside(logits);
    enter_half(weights_.output_norm, weights_.output_norm_bias, rows, residual_rows);
  } else {
    take_norm(logits, weights_.output_norm, rows, residual_rows);
  }
  multiply(logits, nullptr, rows);
  const lora_output output{engine::lora_target::output, 0};
  add_lora({&output, 1}, 0, {logits.x, nullptr, logits.x_stride}, logits.out, spec_.vocab, rows,
           residual_rows);
  scale(logits.out, std::uint64_t{rows} * spec_.vocab, spec_.logit_scale, spec_.logit_softcap);
  tap("logits", static_cast<std::uint32_t>(spec_.layers.size()), logits.out,
      std::uint64_t{rows} * spec_.vocab);
}

void cuda_forward::tap(std::string_view name, std::uint32_t layer, const float* values, std::uint64_t count) {
  if (!tap_) return;
  std::vector<float> host(count);
  ORCD_CUDA(cudaStreamSynchronize(stream_));
  ORCD_CUDA(cudaMemcpy(host.data(), values, count * sizeof(float), cudaMemcpyDeviceToHost));
  tap_(name, layer, host);
}

void cuda_forward::tap(std::string_view name, std::uint32_t layer, const __half* values,
                       std::uint64_t count) {
  if (!tap_) return;
  std::vector<__half> halves(count);
  ORCD_CUDA(cudaStreamSynchronize(stream_));
  ORCD_CUDA(cudaMemcpy(halves.data(), values, count * sizeof(__half), cudaMemcpyDeviceToHost));
  std::vector<float> host(count);
  std::transform(halves.begin(), halves.end(), host.begin(), [](__half h) { return __half2float(h); });
  tap_(name, layer, host);
}

}  // namespace orcd::gpu
