#include "gpu/host/host_recurrence.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/ensure.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/swiglu.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

static_assert(kernels::recurrent_chunk == engine::chunk_positions);
static_assert(kernels::recurrent_taps_max == engine::conv_kernel_max);

/// Where a layer's values of a token lie in a row of host_workspace::mixed.
struct mixed_places {
  std::size_t in = 0;         ///< of the convolution
  std::size_t convolved = 0;  ///< what it gives: queries, keys and values
  std::size_t queries = 0, keys = 0, values = 0;
  std::size_t gate = 0;
  std::size_t beta = 0, decay = 0;
  std::size_t result = 0;  ///< what heads give
};

mixed_places places_of(const engine::recurrent_spec& of, engine::mixer_kind kind) {
  using engine::mixer_kind;
  const std::size_t channels = of.conv_channels(kind);
  const std::size_t rows = of.input_rows(kind);
  if (kind == mixer_kind::short_conv) return {.in = rows, .convolved = rows + channels};
  if (kind == mixer_kind::mamba2) {
    return {.in = of.values(),
            .convolved = rows,
            .queries = rows + of.values() + of.keys(),
            .keys = rows + of.values(),
            .values = rows,
            .gate = 0,
            .beta = 0,
            .decay = of.values() + channels,
            .result = rows + channels};
  }
  const std::size_t behind = 2 * channels + of.values();
  return {.in = 0,
          .convolved = channels,
          .queries = channels,
          .keys = channels + of.keys(),
          .values = channels + 2 * std::size_t{of.keys()},
          .gate = 2 * channels,
          .beta = behind,
          .decay = of.joint_beta_decay ? behind : behind + of.value_heads,
          .result = behind + 2 * std::size_t{of.value_heads}};
}

}  // namespace

std::uint32_t mixed_width(const engine::model_spec& spec) {
  std::size_t widest = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    if (!engine::is_recurrent(layer.mixer)) continue;
    const mixed_places at = places_of(spec.recurrence, layer.mixer);
    const std::size_t end = engine::has_state(layer.mixer)
                                ? at.result + spec.recurrence.values()
                                : at.convolved + spec.recurrence.conv_channels(layer.mixer);
    widest = std::max(widest, end);
  }
  return static_cast<std::uint32_t>(widest);
}

std::uint64_t host_recurrence::bytes(const engine::model_spec& spec, const host_extents& extents) {
  return kept_layout(spec, extents.states).slot_values * extents.slots * sizeof(float);
}

host_recurrence::host_recurrence(const engine::model& m, const host_extents& extents)
    : model_(m), spec_(m.spec), extents_(extents), kept_(m.spec, extents.states) {
  if (!any()) return;
  const engine::kv_group& group = extents.groups.geometry.further().back();
  ORCD_ENSURE(group.need == engine::kv_need::state && group.page_bytes == kept_.page_values * sizeof(float));
  pages_ = std::make_unique<float[]>(kept_.page_values * group.pages);
  copies_.reserve(std::size_t{extents.slots} * 4);
  memory_ = std::make_unique<float[]>(kept_.slot_values * extents.slots);
  slots_.resize(extents.slots);
  step_.reserve(extents.slots);
  runs_.reserve(extents.slots);
  parts_.reserve(extents.slots);
  left_slots_.reserve(extents.slots);
}

void host_recurrence::clear(std::uint32_t slot) noexcept {
  kept_sequence& of = slots_[slot];
  if (of.used) std::memset(memory_.get() + slot * kept_.slot_values, 0, kept_.slot_values * sizeof(float));
  of = {};
}

float* host_recurrence::state_at(std::uint32_t slot, std::uint32_t layer,
                                 std::uint32_t position) const noexcept {
  const std::uint64_t values = spec_.recurrence.state_values(spec_.layers[layer].mixer);
  return memory_.get() + slot * kept_.slot_values + kept_.layers[layer].states +
         position / engine::chunk_positions % extents_.states * values;
}

float* host_recurrence::input_at(std::uint32_t slot, std::uint32_t layer,
                                 std::uint32_t position) const noexcept {
  const std::uint32_t rows = extents_.states * engine::chunk_positions;
  return memory_.get() + slot * kept_.slot_values + kept_.layers[layer].inputs +
         position % rows * std::uint64_t{spec_.recurrence.conv_channels(spec_.layers[layer].mixer)};
}

/// Calls `copy` with each part of a slot, its part of a page, and how many values it has.
template <class Copy>
void host_recurrence::each_kept(std::uint32_t slot, const engine::state_copy& at, const Copy& copy) const {
  const std::uint32_t back = spec_.recurrence.conv_kernel - 1;
  for (const std::uint32_t layer : kept_.recurrent) {
    const engine::mixer_kind kind = spec_.layers[layer].mixer;
    const std::uint64_t values = spec_.recurrence.state_values(kind);
    const std::uint64_t width = spec_.recurrence.conv_channels(kind);
    float* const page = page_at(at.page, layer);
    copy(state_at(slot, layer, at.position), page, values);
    for (std::uint32_t i = 0; i < back; ++i)
      copy(input_at(slot, layer, at.position - back + i), page + values + i * width, width);
  }
}

void host_recurrence::load(std::uint32_t slot, const engine::state_copy& from) {
  ORCD_ENSURE(from.position > 0 && from.position % engine::chunk_positions == 0 && !slots_[slot].used);
  each_kept(slot, from, [](float* kept, const float* page, std::uint64_t values) {
    std::memcpy(kept, page, values * sizeof(float));
  });
  slots_[slot] = {.first_state = from.position, .written = from.position, .used = true};
}

bool host_recurrence::save(std::uint32_t slot, const engine::state_copy& to) noexcept {
  const kept_sequence& of = slots_[slot];
  const std::uint32_t back = spec_.recurrence.conv_kernel - 1;
  const std::uint32_t rows = extents_.states * engine::chunk_positions;
  if (of.spoiled || to.position < std::max(of.first_state, back) || to.position > of.written) return false;
  if (to.position + rows < of.written + back) return false;
  each_kept(slot, to, [](const float* kept, float* page, std::uint64_t values) {
    std::memcpy(page, kept, values * sizeof(float));
  });
  return true;
}

void host_recurrence::clear_page(engine::kv_page page) noexcept {
  std::memset(page_at(page, kept_.recurrent.front()), 0, kept_.page_values * sizeof(float));
}

void host_recurrence::copy_in_step(std::uint32_t slot, std::span<const engine::state_copy> wanted) {
  for (const engine::state_copy& one : wanted) copies_.push_back({slot, one});
}

void host_recurrence::end_step(bool complete) noexcept {
  for (const step_run& run : step_) slots_[run.slot].spoiled |= !complete;
  copies_.clear();
}

void host_recurrence::begin_step(const host_workspace& work, std::uint32_t columns) {
  columns_ = columns;
  step_.clear();
  for (std::uint32_t c = 0; c < columns; ++c) {
    const std::uint32_t slot = work.column_slots[c];
    if (step_.empty() || step_.back().slot != slot) {
      step_.push_back({slot, c, 1, work.positions[c]});
      continue;
    }
    step_run& last = step_.back();
    ORCD_ENSURE(work.positions[c] == last.position + last.count);
    ++last.count;
  }
  for (const step_run& run : step_) note(run);
}

/// What the run reads must be kept: the state at its chunk's beginning, the chunk's rows, the convolution's.
void host_recurrence::note(const step_run& run) {
  kept_sequence& of = slots_[run.slot];
  const std::uint32_t rows = extents_.states * engine::chunk_positions;
  const std::uint32_t back = spec_.recurrence.conv_kernel - 1;
  ORCD_ENSURE(run.position <= of.written);
  ORCD_ENSURE(run.position / engine::chunk_positions * engine::chunk_positions >= of.first_state);
  ORCD_ENSURE(std::min(run.position, back) + of.written <= run.position + rows);
  of.used = true;
  const std::uint32_t end = run.position + run.count;
  const std::uint32_t newest = end / engine::chunk_positions;
  of.written = std::max(of.written, end);
  if (newest >= extents_.states)
    of.first_state = std::max(of.first_state, (newest + 1 - extents_.states) * engine::chunk_positions);
}

void host_recurrence::point_runs(std::uint32_t layer) {
  runs_.clear();
  left_slots_.clear();
  const kept_layer& at = kept_.layers[layer];
  for (const step_run& run : step_) {
    left_slots_.push_back(run.slot);
    float* const base = memory_.get() + run.slot * kept_.slot_values;
    runs_.push_back({.column = run.column,
                     .count = run.count,
                     .position = run.position,
                     .states = base + at.states,
                     .keys = base + at.keys,
                     .updates = base + at.updates,
                     .decays = base + at.decays,
                     .inputs = base + at.inputs});
  }
}

/// Rows before the states that the step copies, of which some are the step's own: before those take the
/// places of others.
void host_recurrence::copy_inputs(std::uint32_t layer, const host_workspace& work, std::size_t in) {
  const engine::mixer_kind kind = spec_.layers[layer].mixer;
  const std::uint64_t width = spec_.recurrence.conv_channels(kind);
  const std::uint32_t back = spec_.recurrence.conv_kernel - 1;
  for (const step_copy& copy : copies_) {
    const auto run =
        std::find_if(step_.begin(), step_.end(), [&](const step_run& one) { return one.slot == copy.slot; });
    ORCD_ENSURE(run != step_.end() && copy.to.position > run->position &&
                copy.to.position <= run->position + run->count);
    float* const to = page_at(copy.to.page, layer) + spec_.recurrence.state_values(kind);
    for (std::uint32_t i = 0; i < back; ++i) {
      const std::uint32_t position = copy.to.position - back + i;
      const std::size_t column = run->column + (position - run->position);
      const float* const from = position < run->position ? input_at(copy.slot, layer, position)
                                                         : work.mixed + column * extents_.mixed + in;
      std::memcpy(to + i * width, from, width * sizeof(float));
    }
  }
}

/// In as many goes as the sequence with most states to copy has parts between them.
void host_recurrence::scan(std::uint32_t layer, kernels::recurrent_args args,
                           kernels::host::thread_pool& pool) {
  const std::uint64_t bytes = spec_.recurrence.state_values(spec_.layers[layer].mixer) * sizeof(float);
  std::size_t copied = 0;
  while (!runs_.empty()) {
    parts_.clear();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      kernels::recurrent_run& left = runs_[i];
      kernels::recurrent_run part = left;
      for (const step_copy& copy : copies_) {
        if (copy.slot != left_slots_[i] || copy.to.position <= left.position) continue;
        part.count = std::min(part.count, copy.to.position - left.position);
      }
      parts_.push_back(part);
    }
    args.runs = parts_.data();
    args.run_count = static_cast<std::uint32_t>(parts_.size());
    host::recurrent_scan(args, pool);
    for (std::size_t i = runs_.size(); i-- > 0;) {
      kernels::recurrent_run& left = runs_[i];
      left.column += parts_[i].count;
      left.position += parts_[i].count;
      left.count -= parts_[i].count;
      for (const step_copy& copy : copies_) {
        if (copy.slot != left_slots_[i] || copy.to.position != left.position) continue;
        std::memcpy(page_at(copy.to.page, layer), state_at(copy.slot, layer, copy.to.position), bytes);
        ++copied;
      }
      if (left.count > 0) continue;
      runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(i));
      left_slots_.erase(left_slots_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  ORCD_ENSURE(copied == copies_.size());
}

void host_recurrence::mix(std::uint32_t layer, host_workspace& work, float* out, bool accumulate,
                          host_adapters& adapters, kernels::host::thread_pool& pool, const layer_tap& tap) {
  const engine::mixer_kind kind = spec_.layers[layer].mixer;
  point_runs(layer);
  project(layer, work, adapters, pool);
  if (engine::has_state(kind)) {
    mix_state(layer, work, pool, tap);
  } else {
    mix_short(layer, work, pool);
  }
  const std::uint32_t width =
      engine::has_state(kind) ? spec_.recurrence.values() : spec_.recurrence.short_channels;
  if (tap) tap("mixed", layer, {work.mix_values, std::size_t{columns_} * width});
  const kernels::matmul_args product = {.weights = matrix_of(model_.weights.layers[layer].mix_out),
                                        .x = work.mix_values,
                                        .y = out,
                                        .x_stride = width,
                                        .y_stride = spec_.embedding,
                                        .columns = columns_,
                                        .accumulate = accumulate};
  host::matmul({&product, 1}, pool);
  adapters.add(engine::lora_target::mix_out, layer, work.mix_values, width, out, spec_.embedding, pool);
}

void host_recurrence::project(std::uint32_t layer, host_workspace& work, host_adapters& adapters,
                              kernels::host::thread_pool& pool) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const engine::mixer_kind kind = spec_.layers[layer].mixer;
  const mixed_places at = places_of(spec_.recurrence, kind);
  const auto add = [&](const engine::tensor_view& matrix, std::size_t offset) {
    if (!matrix) return;
    work.products.push_back({.weights = matrix_of(matrix),
                             .x = work.normed,
                             .y = work.mixed + offset,
                             .x_stride = spec_.embedding,
                             .y_stride = extents_.mixed,
                             .columns = columns_});
  };
  work.products.clear();
  add(weights.mix_in, 0);
  add(weights.mix_gate, at.gate);
  add(weights.mix_beta, at.beta);
  add(weights.mix_decay, at.decay);
  add(weights.mix_beta_decay, at.beta);
  host::matmul(work.products, pool);
  adapters.add(engine::lora_target::mix_in, layer, work.normed, spec_.embedding, work.mixed, extents_.mixed,
               pool);
  adapters.add(engine::lora_target::mix_gate, layer, work.normed, spec_.embedding, work.mixed + at.gate,
               extents_.mixed, pool);
}

void host_recurrence::convolve(std::uint32_t layer, host_workspace& work, std::size_t in, std::size_t out,
                               kernels::host::thread_pool& pool) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const engine::mixer_kind kind = spec_.layers[layer].mixer;
  copy_inputs(layer, work, in);
  host::causal_conv({.runs = runs_.data(),
                     .in = work.mixed + in,
                     .out = work.mixed + out,
                     .in_stride = extents_.mixed,
                     .out_stride = extents_.mixed,
                     .weights = floats_of(weights.conv),
                     .bias = floats_of(weights.conv_bias),
                     .run_count = static_cast<std::uint32_t>(runs_.size()),
                     .channels = spec_.recurrence.conv_channels(kind),
                     .taps = spec_.recurrence.conv_kernel,
                     .rows = extents_.states * engine::chunk_positions,
                     .silu = engine::has_state(kind)},
                    pool);
}

/// A delta net's heads are normed and then gated, Mamba-2's gated and then normed by groups.
void host_recurrence::mix_state(std::uint32_t layer, host_workspace& work, kernels::host::thread_pool& pool,
                                const layer_tap& tap) {
  const engine::layer_weights& weights = model_.weights.layers[layer];
  const engine::recurrent_spec& of = spec_.recurrence;
  const engine::mixer_kind kind = spec_.layers[layer].mixer;
  const bool delta_net = kind == engine::mixer_kind::delta_net;
  const mixed_places at = places_of(of, kind);
  convolve(layer, work, at.in, at.convolved, pool);
  host::recurrent_gates({.queries = work.mixed + at.queries,
                         .keys = work.mixed + at.keys,
                         .beta = work.mixed + at.beta,
                         .decay = work.mixed + at.decay,
                         .rate = floats_of(weights.decay_rate),
                         .bias = floats_of(weights.decay_bias),
                         .factors = work.mix_factors,
                         .decays = work.mix_decays,
                         .stride = extents_.mixed,
                         .gate_stride = extents_.mixed,
                         .columns = columns_,
                         .key_heads = of.key_heads,
                         .value_heads = of.value_heads,
                         .key_length = of.key_length,
                         .joint = of.joint_beta_decay ? of.value_heads / of.key_heads : 0,
                         .eps = static_cast<float>(of.unit_eps),
                         .delta_net = delta_net},
                        pool);
  scan(layer,
       {.queries = work.mixed + at.queries,
        .keys = work.mixed + at.keys,
        .values = work.mixed + at.values,
        .stride = extents_.mixed,
        .factors = work.mix_factors,
        .decays = work.mix_decays,
        .skip = floats_of(weights.skip),
        .out = work.mixed + at.result,
        .out_stride = extents_.mixed,
        .key_heads = of.key_heads,
        .value_heads = of.value_heads,
        .key_length = of.key_length,
        .value_length = of.value_length,
        .states = extents_.states,
        .rows = extents_.states * engine::chunk_positions,
        .in_turn = of.sharing == engine::head_sharing::in_turn,
        .delta_net = delta_net},
       pool);
  if (tap) tap("scanned", layer, {work.mixed, std::size_t{columns_} * extents_.mixed});
  const auto normalise = [&](float* x, std::size_t stride) {
    const std::uint32_t width = of.values() / of.norm_groups;
    host::rms_norm({.x = x,
                    .out = x,
                    .weight = floats_of(weights.mix_norm),
                    .x_stride = stride,
                    .out_stride = stride,
                    .rows = columns_,
                    .heads = of.norm_groups,
                    .width = width,
                    .weight_stride = of.own_norm_weights ? width : 0,
                    .eps = static_cast<float>(of.norm_eps)},
                   pool);
  };
  if (delta_net) normalise(work.mixed + at.result, extents_.mixed);
  host::swiglu({.gate = work.mixed + at.gate,
                .up = work.mixed + at.result,
                .out = work.mix_values,
                .in_stride = extents_.mixed,
                .rows = columns_,
                .width = of.values()},
               pool);
  if (!delta_net) normalise(work.mix_values, of.values());
}

void host_recurrence::mix_short(std::uint32_t layer, host_workspace& work, kernels::host::thread_pool& pool) {
  const std::size_t channels = spec_.recurrence.short_channels;
  const mixed_places at = places_of(spec_.recurrence, spec_.layers[layer].mixer);
  const auto each_column = [&](auto body) {
    pool.run(columns_, 4, [&](std::uint32_t begin, std::uint32_t end) {
      for (std::uint32_t c = begin; c < end; ++c) body(work.mixed + std::size_t{c} * extents_.mixed, c);
    });
  };
  each_column([&](float* row, std::uint32_t) {
    for (std::size_t i = 0; i < channels; ++i) row[at.in + i] = row[i] * row[2 * channels + i];
  });
  convolve(layer, work, at.in, at.convolved, pool);
  each_column([&](const float* row, std::uint32_t c) {
    float* const out = work.mix_values + c * channels;
    for (std::size_t i = 0; i < channels; ++i) out[i] = row[channels + i] * row[at.convolved + i];
  });
}

}  // namespace orcd::gpu
