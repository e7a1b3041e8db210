#include "gpu/cuda/cuda_recurrence.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <initializer_list>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "kernels/attention/page_control.hpp"
#include "kernels/host/recurrent.hpp"

namespace orcd::gpu {

static_assert(kernels::chunk_rows == engine::chunk_positions);
static_assert(kernels::chunk_rows == kernels::recurrent_chunk);
static_assert(sizeof(kernels::wanted_state) == 2 * sizeof(std::int32_t));

cuda_recurrence::cuda_recurrence(const engine::model_spec& spec, const cuda_weights& weights,
                                 const cuda_extents& extents, const work_layout& layout,
                                 const vram_arena& work, const vram_arena& cache, cudaStream_t stream,
                                 multiply_call multiply)
    : spec_(spec),
      weights_(weights),
      layout_(layout),
      work_(work),
      kept_(spec, kept_boundaries(extents.draft_tokens)),
      boundaries_(kept_boundaries(extents.draft_tokens)),
      stream_(stream),
      multiply_(std::move(multiply)),
      slots_(extents.slots) {
  if (!any()) return;
  const kv_layout cached(spec, extents);
  const engine::kv_group& group = cached.groups.geometry.further().back();
  ORCD_ENSURE(group.need == engine::kv_need::state && group.page_bytes == kept_.page_values * sizeof(float));
  pages_ = cache.at<float>(cached.states);
  page_count_ = group.pages;
}

kernels::kept_memory cuda_recurrence::memory_of(std::uint32_t layer) const {
  const kept_layer& at = kept_.layers[layer];
  kernels::kept_memory out;
  out.slots = work_.at<float>(layout_.recurrent.slots);
  out.slot_stride = kept_.slot_values;
  out.states = at.states;
  out.keys = at.keys;
  out.updates = at.updates;
  out.decays = at.decays;
  out.inputs = at.inputs;
  out.state_count = boundaries_;
  out.rows = boundaries_ * engine::chunk_positions;
  out.state_values = spec_.recurrence.state_values(spec_.layers[layer].mixer);
  out.pages = pages_ + at.copied;
  out.page_stride = kept_.page_values;
  return out;
}

std::uint32_t cuda_recurrence::values_width(std::uint32_t layer) const noexcept {
  const engine::mixer_kind kind = spec_.layers[layer].mixer;
  return engine::has_state(kind) ? spec_.recurrence.values() : spec_.recurrence.short_channels;
}

void cuda_recurrence::copy(std::uint32_t slot, const engine::state_copy& what, bool to_page) {
  const auto page = static_cast<std::uint32_t>(what.page);
  ORCD_ENSURE(slot < slots_.size() && page < page_count_ && what.position > 0 &&
              what.position % engine::chunk_positions == 0);
  kernels::copy_state_args args;
  args.back = spec_.recurrence.conv_kernel - 1;
  args.slot = slot;
  args.position = what.position;
  args.page = page;
  args.to_page = to_page;
  for (const std::uint32_t layer : kept_.recurrent) {
    args.kept = memory_of(layer);
    args.channels = spec_.recurrence.conv_channels(spec_.layers[layer].mixer);
    ORCD_CUDA(kernels::launch_copy_state(args, stream_));
  }
}

void cuda_recurrence::begin(std::uint32_t slot, const engine::group_pages& pages, std::uint32_t position) {
  slots_[slot] = {.first_state = position, .written = position};
  ORCD_ENSURE(pages.pages.size() == (position > 0 ? 1U : 0U));
  if (position > 0) copy(slot, {position, pages.pages.front()}, false);
}

bool cuda_recurrence::keep_state(std::uint32_t slot, const engine::state_copy& to) noexcept {
  const kept_sequence& of = slots_[slot];
  const std::uint32_t back = spec_.recurrence.conv_kernel - 1;
  const std::uint32_t rows = boundaries_ * engine::chunk_positions;
  if (of.spoiled || to.position < std::max(of.first_state, back) || to.position > of.written) return false;
  if (to.position + rows < of.written + back) return false;
  try {
    copy(slot, to, true);
  } catch (const engine::accelerator_failure&) {
    return false;  // the next step reports it
  }
  return true;
}

void cuda_recurrence::clear(std::span<const engine::kv_page> pages) {
  for (const engine::kv_page page : pages) {
    ORCD_ENSURE(static_cast<std::uint32_t>(page) < page_count_);
    ORCD_CUDA(cudaMemsetAsync(pages_ + static_cast<std::uint64_t>(page) * kept_.page_values, 0,
                              kept_.page_values * sizeof(float), stream_));
  }
}

void cuda_recurrence::spoil() noexcept {
  for (kept_sequence& of : slots_) of.spoiled = true;
}

/// What the step reads must be kept: the state at its chunk's beginning, the chunk's rows, the convolution's.
void cuda_recurrence::note(std::uint32_t slot, std::uint32_t position, std::uint32_t count) {
  kept_sequence& of = slots_[slot];
  if (position == 0) of = {};
  const std::uint32_t rows = boundaries_ * engine::chunk_positions;
  const std::uint32_t back = spec_.recurrence.conv_kernel - 1;
  ORCD_ENSURE(position <= of.written);
  ORCD_ENSURE(position / engine::chunk_positions * engine::chunk_positions >= of.first_state);
  ORCD_ENSURE(std::min(position, back) + of.written <= position + rows);
  const std::uint32_t newest = (position + count) / engine::chunk_positions;
  of.written = std::max(of.written, position + count);
  if (newest >= boundaries_)
    of.first_state = std::max(of.first_state, (newest + 1 - boundaries_) * engine::chunk_positions);
}

void cuda_recurrence::want(std::uint32_t column, std::uint32_t position,
                           std::span<const engine::state_copy> states) {
  for (const engine::state_copy& state : states) {
    const auto page = static_cast<std::uint32_t>(state.page);
    ORCD_ENSURE(state.position > position && page < page_count_);
    kernels::write_words_args args;
    const std::uint64_t at = column + (state.position - 1 - position);
    args.to = reinterpret_cast<std::int32_t*>(work_.at<kernels::wanted_state>(layout_.recurrent.wanted) + at);
    args.count = 2;
    args.words[0] = static_cast<std::int32_t>(state.position);
    args.words[1] = static_cast<std::int32_t>(page);
    ORCD_CUDA(kernels::launch_write_words(args, stream_));
    wants_ = true;
  }
}

void cuda_recurrence::forget_wanted() {
  if (!wants_) return;
  wants_ = false;
  ORCD_CUDA(cudaMemsetAsync(work_.at<std::byte>(layout_.recurrent.wanted), 0, layout_.recurrent.wanted_bytes,
                            stream_));
}

void cuda_recurrence::begin_pass(std::uint32_t columns, std::uint32_t runs) {
  auto* const listed = work_.at<kernels::device_run>(layout_.recurrent.runs);
  auto* const count = work_.at<std::int32_t>(layout_.recurrent.run_count);
  const auto* const steps = work_.at<kernels::step_token>(layout_.steps);
  pass_ = {.steps = steps,
           .wanted = work_.at<kernels::wanted_state>(layout_.recurrent.wanted),
           .runs = listed,
           .run_count = count,
           .columns = columns,
           .runs_max = runs,
           .short_runs = runs == 0};
  if (runs > 0) ORCD_CUDA(kernels::launch_find_runs({steps, columns, listed, count}, stream_));
}

/// Matrices whose rows follow each other are one product.
void cuda_recurrence::project(std::uint32_t layer, const __half* x, std::uint32_t x_stride) {
  const cuda_layer_weights& w = weights_.layers[layer];
  const mixed_layout at = places(layer);
  const auto multiply = [&](std::initializer_list<const kernels::packed_matrix*> matrices, std::uint32_t to) {
    kernels::packed_matmul_args args;
    args.matrices = 0;
    for (const kernels::packed_matrix* matrix : matrices) {
      if (matrix->rows > 0) args.w[args.matrices++] = *matrix;
    }
    if (args.matrices == 0) return;
    args.x = x;
    args.x_stride = x_stride;
    args.out = mixed() + to;
    args.out_stride = at.width;
    multiply_(args, pass_.columns);
  };
  multiply({&w.mix_in, &w.mix_gate, &w.mix_beta_decay}, 0);
  multiply({&w.mix_beta, &w.mix_decay}, at.beta);
}

void cuda_recurrence::mix(std::uint32_t layer) {
  if (engine::has_state(spec_.layers[layer].mixer))
    mix_state(layer);
  else
    mix_short(layer);
}

/// The scan's results take the place of the convolution's inputs, which are kept before.
void cuda_recurrence::mix_state(std::uint32_t layer) {
  const engine::recurrent_spec& of = spec_.recurrence;
  const mixed_layout at = places(layer);
  const kept_layer& kept = kept_.layers[layer];
  const std::uint32_t channels = of.conv_channels(spec_.layers[layer].mixer);
  prepare(layer, at);
  if (!pass_.short_runs) {
    const kernels::keep_rows_args::part inputs{mixed() + at.in, nullptr, at.width, channels, kept.inputs};
    keep(layer, {&inputs, 1});
  }
  scan(layer, at);
  if (!pass_.short_runs) {
    const kernels::keep_rows_args::part rest[] = {
        {mixed() + at.convolved + at.keys, nullptr, at.width, of.keys(), kept.keys},
        {work_.at<float>(layout_.recurrent.decays), nullptr, of.value_heads, of.value_heads, kept.decays}};
    keep(layer, rest);
  }
  finish(layer, at);
}

void cuda_recurrence::prepare(std::uint32_t layer, const mixed_layout& at) {
  const engine::recurrent_spec& of = spec_.recurrence;
  const cuda_layer_weights& w = weights_.layers[layer];
  kernels::prepare_mix_args args;
  args.pass = pass_;
  args.kept = memory_of(layer);
  args.mixed = mixed();
  args.stride = at.width;
  args.in = at.in;
  args.convolved = at.convolved;
  args.queries = at.queries;
  args.keys = at.keys;
  args.values = at.values;
  args.beta = at.beta;
  args.decay = at.decay;
  args.taps = w.conv;
  args.conv_bias = w.conv_bias;
  args.rate = w.decay_rate;
  args.decay_bias = w.decay_bias;
  args.factors = work_.at<float>(layout_.recurrent.factors);
  args.decays = work_.at<float>(layout_.recurrent.decays);
  args.tap_count = of.conv_kernel;
  args.channels = of.conv_channels(spec_.layers[layer].mixer);
  args.key_heads = of.key_heads;
  args.value_heads = of.value_heads;
  args.key_length = of.key_length;
  args.value_length = of.value_length;
  args.joint = of.joint_beta_decay ? of.value_heads / of.key_heads : 0;
  args.eps = static_cast<float>(of.unit_eps);
  args.delta_net = spec_.layers[layer].mixer == engine::mixer_kind::delta_net;
  ORCD_CUDA(kernels::launch_prepare_mix(args, stream_));
}

void cuda_recurrence::scan(std::uint32_t layer, const mixed_layout& at) {
  const engine::recurrent_spec& of = spec_.recurrence;
  const float* const convolved = mixed() + at.convolved;
  kernels::scan_args args;
  args.pass = pass_;
  args.kept = memory_of(layer);
  args.queries = convolved + at.queries;
  args.keys = convolved + at.keys;
  args.values = convolved + at.values;
  args.out = mixed() + at.in;
  args.stride = at.width;
  args.factors = work_.at<float>(layout_.recurrent.factors);
  args.decays = work_.at<float>(layout_.recurrent.decays);
  args.skip = weights_.layers[layer].skip;
  args.key_heads = of.key_heads;
  args.value_heads = of.value_heads;
  args.key_length = of.key_length;
  args.value_length = of.value_length;
  args.in_turn = of.sharing == engine::head_sharing::in_turn;
  args.delta_net = spec_.layers[layer].mixer == engine::mixer_kind::delta_net;
  ORCD_CUDA(kernels::launch_scan(args, stream_));
}

/// A delta net's heads are normed and then gated, Mamba-2's gated and then normed by groups.
void cuda_recurrence::finish(std::uint32_t layer, const mixed_layout& at) {
  const engine::recurrent_spec& of = spec_.recurrence;
  kernels::finish_mix_args args;
  args.x = mixed() + at.in;
  args.gate = mixed() + at.gate;
  args.stride = at.width;
  args.weight = weights_.layers[layer].mix_norm;
  args.width = of.values();
  args.groups = of.norm_groups;
  args.weight_stride = of.own_norm_weights ? of.values() / of.norm_groups : 0;
  args.columns = pass_.columns;
  args.eps = static_cast<float>(of.norm_eps);
  args.gate_first = spec_.layers[layer].mixer == engine::mixer_kind::mamba2;
  args.out = work_.at<__half>(layout_.recurrent.values);
  args.out_stride = kernels::padded_cols(of.values());
  ORCD_CUDA(kernels::launch_finish_mix(args, stream_));
}

void cuda_recurrence::mix_short(std::uint32_t layer) {
  const engine::recurrent_spec& of = spec_.recurrence;
  const mixed_layout at = places(layer);
  kernels::short_conv_args args;
  args.pass = pass_;
  args.kept = memory_of(layer);
  args.mixed = mixed();
  args.stride = at.width;
  args.channels = of.short_channels;
  args.taps = weights_.layers[layer].conv;
  args.bias = weights_.layers[layer].conv_bias;
  args.tap_count = of.conv_kernel;
  args.out = work_.at<__half>(layout_.recurrent.values);
  args.out_stride = kernels::padded_cols(of.short_channels);
  ORCD_CUDA(kernels::launch_short_conv(args, stream_));
  if (pass_.short_runs) return;
  const kernels::keep_rows_args::part products{mixed(), mixed() + 2 * of.short_channels, at.width,
                                               of.short_channels, kept_.layers[layer].inputs};
  keep(layer, {&products, 1});
}

void cuda_recurrence::keep(std::uint32_t layer, std::span<const kernels::keep_rows_args::part> parts) {
  kernels::keep_rows_args args;
  args.pass = pass_;
  args.kept = memory_of(layer);
  std::copy(parts.begin(), parts.end(), args.parts);
  args.part_count = static_cast<std::uint32_t>(parts.size());
  ORCD_CUDA(kernels::launch_keep_rows(args, stream_));
}

}  // namespace orcd::gpu
