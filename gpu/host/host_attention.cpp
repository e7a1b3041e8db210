// The attention half of a layer: projections, rotation, cache and attention.
#include <cstring>

#include "gpu/host/host_forward.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/recurrent.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/rope.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

/// Queries from between their gates, to rows of Q | K | V.
void take_queries(const engine::layer_spec& spec, const host_workspace& work, std::uint32_t columns,
                  std::size_t row) {
  const std::size_t head = spec.key_length;
  for (std::uint32_t c = 0; c < columns; ++c) {
    const float* const from = work.gated_query + std::size_t{c} * 2 * spec.q_rows();
    for (std::uint32_t h = 0; h < spec.heads; ++h)
      std::memcpy(work.qkv + c * row + h * head, from + 2 * h * head, head * sizeof(float));
  }
}

}  // namespace

host_forward::layer_widths host_forward::widths(std::uint32_t layer) const noexcept {
  const engine::layer_spec& spec = spec_.layers[layer];
  const std::uint32_t q = spec.q_rows();
  const std::uint32_t k = spec.k_rows();
  const std::uint32_t v = spec.cached_heads() * spec_.cached_value_length(spec);
  return {q, k, v, q + k + v};
}

/// Q | K | V of every token in one row, whether the file fuses the three matrices or not; Q alone where the
/// layer reads another's cache.
void host_forward::project_qkv(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const layer_widths width = widths(layer);
  const kernels::int8_rows ints = rounded(
      work_.normed, spec_.embedding, {&weights.attn_qkv, &weights.attn_q, &weights.attn_k, &weights.attn_v});
  const auto add = [&](const engine::tensor_view& matrix, const engine::tensor_view& bias,
                       std::uint32_t offset) {
    work_.products.push_back({.weights = matrix_of(matrix),
                              .x = work_.normed,
                              .ints = takes_ints(matrix) ? ints : kernels::int8_rows{},
                              .y = work_.qkv + offset,
                              .x_stride = spec_.embedding,
                              .y_stride = width.qkv,
                              .columns = columns_,
                              .bias = floats_of(bias)});
  };
  const bool gated = spec_.layers[layer].query_gate;
  work_.products.clear();
  if (weights.attn_qkv) {
    add(weights.attn_qkv, weights.attn_qkv_bias, 0);
  } else {
    add(weights.attn_q, weights.attn_q_bias, 0);
    if (gated) {
      work_.products.back().y = work_.gated_query;
      work_.products.back().y_stride = 2 * std::size_t{width.q};
    }
    if (weights.attn_k) add(weights.attn_k, weights.attn_k_bias, width.q);
    if (weights.attn_v) add(weights.attn_v, weights.attn_v_bias, width.q + width.k);
  }
  host::matmul(work_.products, pool_);
  const auto add_lora_to = [&](engine::lora_target target, std::uint32_t offset) {
    add_lora(target, layer, work_.normed, spec_.embedding, work_.qkv + offset, width.qkv);
  };
  add_lora_to(engine::lora_target::attn_qkv, 0);
  if (gated) {
    add_lora(engine::lora_target::attn_q, layer, work_.normed, spec_.embedding, work_.gated_query,
             2 * std::size_t{width.q});
    take_queries(spec_.layers[layer], work_, columns_, width.qkv);
  } else {
    add_lora_to(engine::lora_target::attn_q, 0);
  }
  add_lora_to(engine::lora_target::attn_k, width.q);
  add_lora_to(engine::lora_target::attn_v, width.q + width.k);
  for (std::uint32_t c = 0; spec_.layers[layer].values_from_keys && c < columns_; ++c) {
    float* const keys = work_.qkv + std::size_t{c} * width.qkv + width.q;
    std::memcpy(keys + width.k, keys, width.v * sizeof(float));
  }
  tap("qkv", layer, work_.qkv, std::uint64_t{columns_} * width.qkv);
}

void host_forward::normalise_heads(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const layer_widths width = widths(layer);
  const std::uint32_t head = spec_.layers[layer].key_length;
  const auto normalise_part = [&](const engine::tensor_view& weight, std::uint32_t offset,
                                  std::uint32_t heads) {
    const auto filled = [&]<class Args>(Args) {
      return Args{.x = work_.qkv + offset,
                  .out = work_.qkv + offset,
                  .weight = floats_of(weight),
                  .x_stride = width.qkv,
                  .out_stride = width.qkv,
                  .rows = columns_,
                  .heads = spec_.wide_head_norms ? 1 : heads,
                  .width = spec_.wide_head_norms ? heads * head : head,
                  .weight_stride = spec_.own_head_norms ? head : 0,
                  .eps = static_cast<float>(spec_.rms_eps)};
    };
    if (spec_.head_norm == engine::norm_kind::layer)
      host::layer_norm(filled(kernels::layer_norm_args{}), pool_);
    else
      host::rms_norm(filled(kernels::rms_norm_args{}), pool_);
  };
  const engine::layer_spec& spec = spec_.layers[layer];
  if (weights.attn_q_norm) normalise_part(weights.attn_q_norm, 0, spec.heads);
  if (weights.attn_k_norm) normalise_part(weights.attn_k_norm, width.q, spec.kv_heads);
  if (spec_.value_norm && !spec.reads_other_cache) normalise_part({}, width.q + width.k, spec.kv_heads);
}

/// Queries that grow with the position: rotation does not change their length.
void host_forward::scale_queries(std::uint32_t layer) {
  if (spec_.query_scale == 0.0) return;
  const layer_widths width = widths(layer);
  for (std::uint32_t c = 0; c < columns_; ++c) {
    const auto scale = static_cast<float>(engine::query_scale_at(spec_, work_.positions[c]));
    float* const q = work_.qkv + std::size_t{c} * width.qkv;
    for (std::uint32_t i = 0; i < width.q; ++i) q[i] *= scale;
  }
}

/// Q and K lie one after the other, so that they are one row of heads.
void host_forward::rotate(std::uint32_t layer) {
  if (spec_.layers[layer].rope.dims == 0)
    return tap("qkv_rot", layer, work_.qkv, std::uint64_t{columns_} * widths(layer).qkv);
  const engine::layer_spec& spec = spec_.layers[layer];
  const std::uint64_t at = std::uint64_t{rope_of_layer_[layer]} * extents_.columns * extents_.rope_pairs;
  host::rope({.x = work_.qkv + (spec_.latent ? spec_.latent.rank : 0),
              .cosines = work_.cosines + at,
              .sines = work_.sines + at,
              .x_stride = widths(layer).qkv,
              .columns = columns_,
              .heads = spec.heads + spec.cached_heads(),
              .head_width = spec.key_length,
              .pairs = spec.rope.dims / 2,
              .interleaved = spec.rope.pairing == engine::rope_pairing::interleaved},
             pool_);
  tap("qkv_rot", layer, work_.qkv, std::uint64_t{columns_} * widths(layer).qkv);
}

void host_forward::store_kv(std::uint32_t layer) {
  const layer_widths width = widths(layer);
  const std::uint32_t group = extents_.groups.of_layer[layer];
  for (std::uint32_t c = 0; c < columns_; ++c) {
    const std::uint32_t slot = work_.column_slots[c];
    work_.attention[c] = {.pages = page_tables_.of(slot, group).data(),
                          .position = work_.positions[c],
                          .end = forms_[slot].end};
  }
  for (const auto& [column, row] : rows_) {
    if (row.end == 0 || (spec_.pictures_in_windows_alone && spec_.layers[layer].window == 0)) continue;
    work_.attention[column].end = row.end;
    work_.attention[column].block = row.first;
  }
  if (spec_.layers[layer].reads_other_cache) return;
  host::store_kv({.k = work_.qkv + width.q,
                  .v = work_.qkv + width.q + width.k,
                  .stride = width.qkv,
                  .cache = cache_.layer(layer),
                  .columns = work_.attention.data(),
                  .column_count = columns_,
                  .kv_heads = spec_.layers[layer].kv_heads,
                  .key_width = spec_.layers[layer].key_length,
                  .value_width = spec_.cached_value_length(spec_.layers[layer]),
                  .types = cache_.types()},
                 pool_);
}

void host_forward::attend(std::uint32_t layer) {
  const engine::layer_spec& spec = spec_.layers[layer];
  host::attention({.q = work_.qkv,
                   .out = work_.attended,
                   .q_stride = widths(layer).qkv,
                   .cache = cache_.layer(spec.reads_other_cache ? spec.kv_source : layer),
                   .columns = work_.attention.data(),
                   .sinks = floats_of(model_.weights.layers[layer].attn_sinks),
                   .column_count = columns_,
                   .heads = spec.heads,
                   .kv_heads = spec.kv_heads,
                   .key_width = spec.key_length,
                   .value_width = spec.value_length,
                   .window = spec.window,
                   .values_in_keys = static_cast<bool>(spec_.latent),
                   .softcap = static_cast<float>(spec_.attention_softcap),
                   .scale = static_cast<float>(spec_.attention_scale),
                   .types = cache_.types()},
                  pool_);
  if (spec.query_gate) {
    host::sigmoid_gate({.x = work_.attended,
                        .gates = work_.gated_query + spec.key_length,
                        .x_stride = spec.attended_rows(),
                        .gate_stride = 2 * std::size_t{spec.q_rows()},
                        .gate_step = 2 * std::size_t{spec.key_length},
                        .rows = columns_,
                        .heads = spec.heads,
                        .width = spec.value_length},
                       pool_);
  }
  tap("attended", layer, work_.attended, std::uint64_t{columns_} * spec.attended_rows());
}

/// Adds the projected attention to the residual stream, or leaves it for finish_half().
void host_forward::project_attended(std::uint32_t layer) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const engine::layer_spec& spec = spec_.layers[layer];
  const std::uint32_t width = spec_.latent ? spec.heads * spec_.latent.value_length : spec.attended_rows();
  float* const attended = spec_.latent ? work_.latent_values : work_.attended;
  if (spec_.latent)
    multiply_heads(weights.attn_v_b, {work_.attended, spec.value_length, spec.attended_rows()},
                   {attended, spec_.latent.value_length, width});
  normalise_in_place(weights.attn_sub_norm, attended, width, spec_.rms_eps);
  const kernels::matmul_args product = {.weights = matrix_of(weights.attn_output),
                                        .x = attended,
                                        .ints = rounded(attended, width, {&weights.attn_output}),
                                        .y = half_output(),
                                        .x_stride = width,
                                        .y_stride = spec_.embedding,
                                        .columns = columns_,
                                        .bias = floats_of(weights.attn_output_bias),
                                        .accumulate = !spec_.post_norms};
  host::matmul({&product, 1}, pool_);
  add_lora(engine::lora_target::attn_output, layer, attended, width, half_output(), spec_.embedding);
}

}  // namespace orcd::gpu
