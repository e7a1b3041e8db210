#include "gpu/host/host_tower_layers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/kv_window.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/rope.hpp"
#include "kernels/host/swiglu.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

constexpr engine::kv_types cache_types{engine::kv_type::f32, engine::kv_type::f32};

/// What a position of a sound is made of, for the larger of the convolutions; two frames are a position.
std::uint64_t conv_values(const engine::tower_spec& spec) noexcept {
  return 3ULL * std::max(spec.width, 2 * spec.sound->bins);
}

/// Pages that a window's patches take; a window may be larger than any view.
std::uint32_t window_pages(const engine::tower_spec& spec) noexcept {
  const auto patches = std::min<std::uint64_t>(std::uint64_t{spec.window} * spec.window, spec.patches_max());
  return engine::pages_over(static_cast<std::uint32_t>(patches), engine::kv_page_positions);
}

/// Rows of `width` values, so far apart; NaN stays NaN.
void clip(const float* from, std::size_t from_stride, float* to, std::size_t to_stride, std::uint32_t rows,
          std::size_t width, const engine::value_range& range) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i)
      to[row * to_stride + i] = std::clamp(from[row * from_stride + i], range.low, range.high);
}

}  // namespace

/// Values of each part of the memory.
struct host_tower_layers::extents {
  std::uint64_t stream, qkv, hidden, clipped, cache;
  std::uint32_t pages;

  explicit extents(const engine::tower_spec& spec) {
    const std::uint64_t patches = spec.patches_max();
    const std::uint64_t rows = spec.view_rows_max();
    const std::uint64_t patch =
        spec.sound ? conv_values(spec) : 3ULL * spec.pictures.patch * spec.pictures.patch;
    const std::uint64_t ffn = std::uint64_t{spec.ffn} * (engine::has_gate(spec.activation) ? 3 : 1);
    pages = engine::pages_over(spec.patches_max(), engine::kv_page_positions);
    if (spec.window > 0) pages = std::max(pages, window_pages(spec));
    stream = patches * spec.width;
    qkv = 3 * stream;
    // Before the first layer what patches are made of, in a merger what is between its matrices.
    hidden = std::max(patches * std::max(ffn, patch),
                      rows * std::max<std::uint64_t>(spec.joined_width(), spec.inner_width));
    clipped = spec.clips ? patches * std::max(spec.width, spec.ffn) : 0;
    cache = std::uint64_t{pages} * engine::kv_page_positions * spec.width;
  }
  [[nodiscard]] std::uint64_t values() const noexcept {
    return 2 * stream + qkv + hidden + clipped + 2 * cache;
  }
};

std::uint64_t host_tower_layers::bytes(const engine::tower_spec& spec) noexcept {
  return extents(spec).values() * sizeof(float);
}

host_tower_layers::host_tower_layers(const engine::tower_spec& spec, const view_layout& layout,
                                     host::thread_pool& pool)
    : spec_(spec), layout_(layout), pool_(pool) {
  const extents of(spec_);
  memory_ = std::make_unique<float[]>(of.values());
  float* at = memory_.get();
  const auto take = [&](std::uint64_t values) { return std::exchange(at, at + values); };
  stream_ = take(of.stream);
  normed_ = take(of.stream);
  qkv_ = take(of.qkv);
  hidden_ = take(of.hidden);
  clipped_ = take(of.clipped);
  keys_ = take(of.cache);
  values_ = take(of.cache);
  for (std::uint32_t page = 0; page < of.pages; ++page) pages_.push_back(static_cast<std::int32_t>(page));
  columns_.resize(spec_.patches_max());
}

void host_tower_layers::run(const engine::tower_layer& layer, std::size_t number) {
  normalise(layer.norm_1, layer.norm_1_bias);
  project_heads(layer);
  if (spec_.head_norms) normalise_heads(layer);
  rotate_heads();
  attend(spec_.window > 0 && number % spec_.full_every != 0);
  add_half(layer.out, normed_, layer.post_norm_1);
  normalise(layer.norm_2, layer.norm_2_bias);
  feed_forward(layer);
}

void host_tower_layers::project_heads(const engine::tower_layer& layer) {
  const std::size_t width = spec_.width, row = 3 * width;
  if (layer.qkv.weight) return multiply(layer.qkv, normed_, qkv_, row);
  multiply(layer.q, normed_, qkv_, row);
  multiply(layer.k, normed_, qkv_ + width, row);
  multiply(layer.v, normed_, qkv_ + 2 * width, row);
}

void host_tower_layers::normalise_heads(const engine::tower_layer& layer) {
  const std::size_t row = 3 * std::size_t{spec_.width};
  const auto normalise_part = [&](const engine::tensor_view& weight, std::size_t offset) {
    host::rms_norm({.x = qkv_ + offset,
                    .out = qkv_ + offset,
                    .weight = floats_of(weight),
                    .x_stride = row,
                    .out_stride = row,
                    .rows = patches(),
                    .heads = spec_.heads,
                    .width = spec_.head_width(),
                    .eps = static_cast<float>(spec_.eps)},
                   pool_);
  };
  normalise_part(layer.q_norm, 0);
  normalise_part(layer.k_norm, spec_.width);
  normalise_part({}, 2 * std::size_t{spec_.width});
}

/// Q and K lie one behind the other, so that they are one row of heads.
void host_tower_layers::rotate_heads() {
  for (std::uint32_t turn = 0; turn < layout_.turns(); ++turn) {
    host::rope({.x = qkv_ + layout_.part(turn),
                .cosines = layout_.cosines(turn),
                .sines = layout_.sines(turn),
                .x_stride = 3 * std::size_t{spec_.width},
                .columns = patches(),
                .heads = 2 * spec_.heads,
                .head_width = spec_.head_width(),
                .pairs = layout_.pairs(),
                .interleaved = layout_.adjacent()},
               pool_);
  }
}

/// What the heads give replaces the normed rows. A window's patches have pages of their own, as many windows
/// at once as there are pages for.
void host_tower_layers::attend(bool windows) {
  if (!windows) {
    for (std::uint32_t i = 0; i < patches(); ++i)
      columns_[i] = {.pages = pages_.data(), .position = i, .end = patches()};
    return attend_range(0, patches());
  }
  const std::uint32_t pages = window_pages(spec_);
  const std::size_t at_once = pages_.size() / pages;
  const auto ends = layout_.window_ends();
  std::uint32_t first = 0, begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::int32_t* const own = pages_.data() + i % at_once * pages;
    for (std::uint32_t p = begin; p < ends[i]; ++p)
      columns_[p] = {.pages = own, .position = p - begin, .end = ends[i] - begin};
    begin = ends[i];
    if ((i + 1) % at_once != 0 && i + 1 < ends.size()) continue;
    attend_range(first, begin - first);
    first = begin;
  }
}

void host_tower_layers::attend_range(std::uint32_t first, std::uint32_t count) {
  const std::size_t width = spec_.width, stride = 3 * width;
  const float* const at = qkv_ + first * stride;
  const double scale = spec_.attention_scale != 0.0
                           ? spec_.attention_scale
                           : 1.0 / std::sqrt(static_cast<double>(spec_.head_width()));
  const kernels::attention_cache cache{reinterpret_cast<std::byte*>(keys_),
                                       reinterpret_cast<std::byte*>(values_)};
  host::store_kv({.k = at + width,
                  .v = at + 2 * width,
                  .stride = stride,
                  .cache = cache,
                  .columns = columns_.data() + first,
                  .column_count = count,
                  .kv_heads = spec_.heads,
                  .key_width = spec_.head_width(),
                  .value_width = spec_.head_width(),
                  .types = cache_types},
                 pool_);
  host::attention({.q = at,
                   .out = normed_ + first * width,
                   .q_stride = stride,
                   .cache = cache,
                   .columns = columns_.data() + first,
                   .column_count = count,
                   .heads = spec_.heads,
                   .kv_heads = spec_.heads,
                   .key_width = spec_.head_width(),
                   .value_width = spec_.head_width(),
                   .scale = static_cast<float>(scale),
                   .types = cache_types},
                  pool_);
}

void host_tower_layers::feed_forward(const engine::tower_layer& layer) {
  const std::size_t ffn = spec_.ffn;
  if (engine::has_gate(spec_.activation)) {
    float* const activated = hidden_ + 2 * ffn * patches();
    multiply(layer.gate, normed_, hidden_, 2 * ffn);
    multiply(layer.up, normed_, hidden_ + ffn, 2 * ffn);
    host::swiglu(
        {.gate = hidden_,
         .up = hidden_ + ffn,
         .out = activated,
         .in_stride = 2 * ffn,
         .rows = patches(),
         .width = spec_.ffn,
         .kind = spec_.activation == engine::ffn_activation::geglu_tanh ? kernels::gated_activation::gelu
                                                                        : kernels::gated_activation::silu},
        pool_);
    return add_half(layer.down, activated, layer.post_norm_2);
  }
  multiply(layer.up, normed_, hidden_, ffn);
  host::gelu({.x = hidden_,
              .out = hidden_,
              .rows = patches(),
              .width = spec_.ffn,
              .form = gelu_form_of(spec_.activation)},
             pool_);
  add_half(layer.down, hidden_, layer.post_norm_2);
}

/// What a half gives goes to the stream, through its norm where it has one: then it lies where Q, K and V
/// were.
void host_tower_layers::add_half(const engine::tower_matrix& matrix, const float* x,
                                 const engine::tensor_view& post_norm) {
  if (!post_norm) return multiply(matrix, x, stream_, spec_.width, true);
  multiply(matrix, x, qkv_, spec_.width);
  rms_norm(qkv_, qkv_, post_norm);
  for (std::size_t i = 0; i < std::size_t{patches()} * spec_.width; ++i) stream_[i] += qkv_[i];
}

void host_tower_layers::rms_norm(const float* x, float* out, const engine::tensor_view& weight) {
  host::rms_norm({.x = x,
                  .out = out,
                  .weight = floats_of(weight),
                  .x_stride = spec_.width,
                  .out_stride = spec_.width,
                  .rows = patches(),
                  .width = spec_.width,
                  .eps = static_cast<float>(spec_.eps)},
                 pool_);
}

void host_tower_layers::normalise(const engine::tensor_view& weight, const engine::tensor_view& bias) {
  if (spec_.norm == engine::norm_kind::rms) return rms_norm(stream_, normed_, weight);
  host::layer_norm({.x = stream_,
                    .out = normed_,
                    .weight = floats_of(weight),
                    .bias = floats_of(bias),
                    .x_stride = spec_.width,
                    .out_stride = spec_.width,
                    .rows = patches(),
                    .width = spec_.width,
                    .eps = static_cast<float>(spec_.eps)},
                   pool_);
}

void host_tower_layers::multiply(const engine::tower_matrix& matrix, const float* x, float* y,
                                 std::size_t y_stride, bool accumulate) {
  const std::size_t inputs = matrix.weight.cols(), outputs = matrix.weight.rows();
  if (matrix.inputs) {
    clip(x, inputs, clipped_, inputs, patches(), inputs, *matrix.inputs);
    x = clipped_;
  }
  const kernels::matmul_args product = {.weights = matrix_of(matrix.weight),
                                        .x = x,
                                        .y = y,
                                        .x_stride = inputs,
                                        .y_stride = y_stride,
                                        .columns = patches(),
                                        .bias = floats_of(matrix.bias),
                                        .accumulate = accumulate};
  host::matmul({&product, 1}, pool_);
  if (matrix.outputs) clip(y, y_stride, y, y_stride, patches(), outputs, *matrix.outputs);
}

}  // namespace orcd::gpu
