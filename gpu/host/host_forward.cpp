// Taps, in order: embedding; per layer attn_norm, qkv (with biases), q_rot | k_rot | v as qkv_rot, attended,
// attn_residual, ffn_norm, router_logits (MoE), activated, layer_out; then output_norm and logits. Models
// with post-norm have no attn_norm and ffn_norm. Those with a dense part beside experts have router_norm and
// experts_norm between; those with inputs of layers layer_projections and layer_inputs after the embedding,
// and layer_input at the end of each layer. Layers with another mixer than attention have scanned, whole rows
// of work, and mixed in the place of qkv to attended.
#include "gpu/host/host_forward.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/model/model_tensors.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/embed.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/rope.hpp"
#include "kernels/host/scale.hpp"
#include "kernels/host/ternary.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

/// What the tower has made for this layer of rows of pictures.
void add_deepstack(std::uint32_t layer, std::span<const std::pair<std::uint32_t, given_row>> rows,
                   std::size_t width, float* residual) {
  for (const auto& [column, row] : rows) {
    const float* const from = row.values + (layer + 1) * width;
    for (std::size_t i = 0; i < width; ++i) residual[column * width + i] += from[i];
  }
}

}  // namespace

host_forward::host_forward(const engine::model& m, const host_extents& extents, unsigned threads,
                           layer_tap tap, const engine::cache_source& cache, engine::adapter_room adapters)
    : model_(m),
      spec_(m.spec),
      extents_(extents),
      work_(m.spec, extents),
      cache_(m.spec, extents.kv, extents.groups, cache),
      adapters_(m, adapters, extents),
      page_tables_(extents_),
      recurrence_(m, extents_),
      tap_(std::move(tap)),
      pool_(threads) {
  const std::vector<float> factors = engine::rope_freq_factors(m, extents.context);
  for (const engine::layer_spec& layer : spec_.layers) {
    engine::rope_table table = engine::make_rope_table(layer.rope, factors);
    std::uint32_t index = 0;
    while (index < rope_tables_.size() && (rope_tables_[index].inv_freq != table.inv_freq ||
                                           rope_tables_[index].magnitude != table.magnitude)) {
      ++index;
    }
    if (index == rope_tables_.size()) rope_tables_.push_back(std::move(table));
    rope_of_layer_.push_back(index);
  }
  groups_.reserve(spec_.experts);
  if (extents_.takes_rows) rows_.reserve(extents_.columns);
  forms_.resize(extents.slots);
}

void host_forward::add_token(std::uint32_t slot, std::uint32_t position, engine::token_id token,
                             engine::rotary_position rotary, const given_row* row) {
  ORCD_ENSURE(columns_ < extents_.columns && slot < extents_.slots && position < extents_.context);
  ORCD_ENSURE(page_tables_.has(slot, position));
  work_.column_slots[columns_] = slot;
  work_.positions[columns_] = position;
  work_.tokens[columns_] = token;
  if (extents_.rotates_grids) {
    work_.rotary[columns_] = rotary.time;
    work_.rotary[extents_.columns + columns_] = rotary.line;
    work_.rotary[2 * std::size_t{extents_.columns} + columns_] = rotary.column;
  }
  if (row != nullptr) rows_.emplace_back(columns_, *row);
  ++columns_;
}

bool host_forward::run(std::span<const logits_request> requests, float* logits,
                       const engine::interrupt_flag& interrupt) {
  adapters_.begin_columns();
  for (std::uint32_t c = 0; c < columns_; ++c) adapters_.add_column(c, c, work_.column_slots[c]);
  adapters_.end_columns();
  embed();
  if (spec_.layer_inputs > 0) make_layer_inputs(model_, work_, columns_, pool_, tap_);
  rope_angles();
  if (recurrence_.any()) recurrence_.begin_step(work_, columns_);
  bool complete = true;
  for (std::uint32_t layer = 0; layer < spec_.layers.size() && complete; ++layer) {
    complete = !interrupt.load(std::memory_order_relaxed);
    if (!complete) break;
    if (spec_.norms == engine::norm_placement::after) {
      run_post_norm_layer(layer);
    } else {
      run_layer(layer);
    }
    if (layer < spec_.deepstack_layers) add_deepstack(layer, rows_, spec_.embedding, work_.residual);
  }
  complete = complete && !interrupt.load(std::memory_order_relaxed);
  if (complete && !requests.empty()) compute_logits(requests, logits);
  if (recurrence_.any()) recurrence_.end_step(complete);
  discard_tokens();
  return complete;
}

void host_forward::run_layer(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const engine::layer_spec& spec = spec_.layers[layer];
  const std::uint64_t width = std::uint64_t{columns_} * spec_.embedding;
  if (spec.mixer != engine::mixer_kind::none) {
    normalise(weights.attn_norm, weights.attn_norm_bias);
    tap("attn_norm", layer, work_.normed, width);
    if (spec.mixer != engine::mixer_kind::attention) {
      recurrence_.mix(layer, work_, half_output(), !spec_.post_norms, adapters_, pool_, tap_);
    } else {
      if (spec_.latent)
        project_latents(layer);
      else
        project_qkv(layer);
      normalise_heads(layer);
      scale_queries(layer);
      rotate(layer);
      store_kv(layer);
      attend(layer);
      project_attended(layer);
    }
    finish_half(weights.attn_post_norm);
  }
  tap("attn_residual", layer, work_.residual, width);
  if (spec.ffn != engine::ffn_kind::none) {
    if (!spec_.parallel_halves) normalise(weights.ffn_norm, weights.ffn_norm_bias);
    tap("ffn_norm", layer, work_.normed, width);
    if (spec_.dense_and_experts) {
      dense_and_experts(layer);
      finish_half(weights.ffn_post_norm);
    } else if (spec.ffn == engine::ffn_kind::moe) {
      route(layer);
      moe_ffn(layer);
      shared_ffn(layer);
    } else {
      dense_ffn(layer);
      finish_half(weights.ffn_post_norm);
    }
  }
  if (spec_.layer_inputs > 0) add_layer_input(model_, layer, work_, columns_, pool_, tap_);
  if (weights.layer_output_scale) {
    host::scale({.x = work_.residual,
                 .stride = spec_.embedding,
                 .rows = columns_,
                 .width = spec_.embedding,
                 .scale = engine::output_scale_of(weights)},
                pool_);
  }
  tap("layer_out", layer, work_.residual, width);
}

void host_forward::embed() {
  host::embed({.table = matrix_of(model_.weights.token_embd),
               .tokens = work_.tokens,
               .out = work_.residual,
               .columns = columns_},
              pool_);
  adapters_.add_embeddings(work_.tokens, work_.residual, spec_.embedding, pool_);
  if (spec_.embedding_scale != 1.0) {
    host::scale({.x = work_.residual,
                 .stride = spec_.embedding,
                 .rows = columns_,
                 .width = spec_.embedding,
                 .scale = static_cast<float>(spec_.embedding_scale)},
                pool_);
  }
  for (const auto& [column, row] : rows_) {
    std::memcpy(work_.residual + std::size_t{column} * spec_.embedding, row.values,
                spec_.embedding * sizeof(float));
  }
  if (spec_.learned_positions) add_positions();
  if (spec_.norms == engine::norm_placement::after) {
    post_norm(model_.weights.token_embd_norm, model_.weights.token_embd_norm_bias);
  }
  tap("embedding", 0, work_.residual, std::uint64_t{columns_} * spec_.embedding);
}

void host_forward::rope_angles() {
  for (std::uint32_t i = 0; i < rope_tables_.size(); ++i) {
    const std::uint64_t at = std::uint64_t{i} * extents_.columns * extents_.rope_pairs;
    const bool grids = extents_.rotates_grids && !rope_tables_[i].axes.empty();
    host::rope_angles({.inv_freq = rope_tables_[i].inv_freq.data(),
                       .positions = grids ? work_.rotary : work_.positions,
                       .axes = grids ? rope_tables_[i].axes.data() : nullptr,
                       .axis_stride = extents_.columns,
                       .cosines = work_.cosines + at,
                       .sines = work_.sines + at,
                       .magnitude = rope_tables_[i].magnitude,
                       .pairs = static_cast<std::uint32_t>(rope_tables_[i].inv_freq.size()),
                       .columns = columns_},
                      pool_);
  }
}

/// Of the residual stream; without a weight the rows themselves.
void host_forward::normalise_rows(const float* x, float* out, std::uint32_t rows,
                                  const engine::tensor_view& weight, const engine::tensor_view& bias) {
  const auto eps = static_cast<float>(spec_.residual_eps());
  if (!weight) {
    std::memcpy(out, x, std::uint64_t{rows} * spec_.embedding * sizeof(float));
  } else if (spec_.norm == engine::norm_kind::layer) {
    host::layer_norm({.x = x,
                      .out = out,
                      .weight = floats_of(weight),
                      .bias = floats_of(bias),
                      .x_stride = spec_.embedding,
                      .out_stride = spec_.embedding,
                      .rows = rows,
                      .width = spec_.embedding,
                      .eps = eps},
                     pool_);
  } else {
    host::rms_norm({.x = x,
                    .out = out,
                    .weight = floats_of(weight),
                    .x_stride = spec_.embedding,
                    .out_stride = spec_.embedding,
                    .rows = rows,
                    .width = spec_.embedding,
                    .eps = eps},
                   pool_);
  }
}

void host_forward::normalise(const engine::tensor_view& weight, const engine::tensor_view& bias) {
  normalise_rows(work_.residual, work_.normed, columns_, weight, bias);
}

/// Adds the norm of what a half has left beside the residual stream.
void host_forward::finish_half(const engine::tensor_view& post_norm) {
  if (!spec_.post_norms) return;
  normalise_in_place(post_norm, work_.half_out, spec_.embedding, spec_.residual_eps());
  add_to(work_.residual, work_.half_out, std::uint64_t{columns_} * spec_.embedding);
}

/// The step's rows of `x`, if the model has such a norm.
void host_forward::normalise_in_place(const engine::tensor_view& weight, float* x, std::uint32_t width,
                                      double eps) {
  if (!weight) return;
  host::rms_norm({.x = x,
                  .out = x,
                  .weight = floats_of(weight),
                  .x_stride = width,
                  .out_stride = width,
                  .rows = columns_,
                  .width = width,
                  .eps = static_cast<float>(eps)},
                 pool_);
}

/// The step's rows of `x` in int8, until the next call; none if no matrix that multiplies them takes it.
kernels::int8_rows host_forward::rounded(const float* x, std::uint32_t width,
                                         std::initializer_list<const engine::tensor_view*> by) {
  if (std::none_of(by.begin(), by.end(), [](const auto* matrix) { return takes_ints(*matrix); })) return {};
  host::round_to_int8({.x = x,
                       .values = work_.ints,
                       .scales = work_.int_scales,
                       .sums = work_.int_sums,
                       .x_stride = width,
                       .rows = columns_,
                       .width = width},
                      pool_);
  return {work_.ints, work_.int_scales, work_.int_sums};
}

void host_forward::compute_logits(std::span<const logits_request> requests, float* logits) {
  std::uint32_t count = 0;
  adapters_.begin_columns();
  for (const logits_request& request : requests) {
    normalise_rows(work_.residual + std::uint64_t{request.column} * spec_.embedding,
                   work_.normed + std::uint64_t{count} * spec_.embedding, 1, model_.weights.output_norm,
                   model_.weights.output_norm_bias);
    adapters_.add_column(count, request.row, work_.column_slots[request.column]);
    work_.sampled_rows[count++] = request.row;
  }
  adapters_.end_columns();
  const auto after_layers = static_cast<std::uint32_t>(spec_.layers.size());
  tap("output_norm", after_layers, work_.normed, std::uint64_t{count} * spec_.embedding);
  const kernels::matmul_args product = {.weights = matrix_of(model_.weights.output),
                                        .x = work_.normed,
                                        .y = logits,
                                        .x_stride = spec_.embedding,
                                        .y_stride = spec_.vocab,
                                        .columns = count,
                                        .y_rows = work_.sampled_rows};
  host::matmul({&product, 1}, pool_);
  add_lora(engine::lora_target::output, 0, work_.normed, spec_.embedding, logits, spec_.vocab);
  for (const logits_request& request : requests) {
    if (spec_.logit_scale != 1.0 || spec_.logit_softcap > 0.0) {
      host::scale({.x = logits + std::uint64_t{request.row} * spec_.vocab,
                   .stride = spec_.vocab,
                   .rows = 1,
                   .width = spec_.vocab,
                   .scale = static_cast<float>(spec_.logit_scale),
                   .cap = static_cast<float>(spec_.logit_softcap)},
                  pool_);
    }
    tap("logits", after_layers, logits + std::uint64_t{request.row} * spec_.vocab, spec_.vocab);
  }
}

void host_forward::tap(std::string_view name, std::uint32_t layer, const float* values,
                       std::uint64_t count) const {
  if (tap_) tap_(name, layer, {values, count});
}

}  // namespace orcd::gpu
