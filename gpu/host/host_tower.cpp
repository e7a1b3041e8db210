#include "gpu/host/host_tower.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/base/kv_window.hpp"
#include "engine/media/prepare_picture.hpp"
#include "gpu/host/host_tensors.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/rms_norm.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

constexpr engine::kv_types cache_types{engine::kv_type::f32, engine::kv_type::f32};

std::uint64_t merged_width(const engine::tower_spec& spec) noexcept {
  const bool joins = spec.merge == engine::tower_merge::concatenate;
  if (spec.sound) return std::uint64_t{spec.width} * spec.sound->stack;
  return std::uint64_t{spec.width} * (joins ? spec.pictures.merge * spec.pictures.merge : 1);
}

/// What a position of a sound is made of, for the larger of the convolutions; two frames are a position.
std::uint64_t conv_values(const engine::tower_spec& spec) noexcept {
  return 3ULL * std::max(spec.width, 2 * spec.sound->bins);
}

/// One row of a matrix, decoded.
void decode(const engine::tensor_view& matrix, std::uint64_t row, float* out) {
  host::dequantize_row(matrix_of(matrix), row, out);
}

std::vector<float> turned(const engine::tensor_view& matrix) {
  const std::uint64_t rows = matrix.rows(), cols = matrix.cols();
  std::vector<float> out(rows * cols), row(cols);
  for (std::uint64_t r = 0; r < rows; ++r) {
    decode(matrix, r, row.data());
    for (std::uint64_t c = 0; c < cols; ++c) out[c * rows + r] = row[c];
  }
  return out;
}

/// Rows of a convolution's inputs: of each place the values of a channel in the three places around it, then
/// those of the next channel. What lies beyond an end is 0.
void spread(const float* from, std::uint32_t places, std::uint32_t channels, std::uint32_t step, float* to) {
  for (std::uint32_t place = 0; place < places; place += step) {
    for (std::uint32_t channel = 0; channel < channels; ++channel, to += 3) {
      const float* const at = from + std::size_t{place} * channels + channel;
      to[0] = place == 0 ? 0.0F : at[-static_cast<std::ptrdiff_t>(channels)];
      to[1] = at[0];
      to[2] = place + 1 == places ? 0.0F : at[channels];
    }
  }
}

}  // namespace

/// Values of each part of the memory.
struct host_tower::extents {
  std::uint64_t stream, qkv, hidden, merged, projected, cache;
  std::uint32_t pages;

  explicit extents(const engine::tower_spec& spec) {
    const std::uint64_t patches = spec.patches_max();
    const std::uint64_t rows = spec.view_rows_max();
    const std::uint64_t patch =
        spec.sound ? conv_values(spec) : 3ULL * spec.pictures.patch * spec.pictures.patch;
    pages = engine::pages_over(spec.patches_max(), engine::kv_page_positions);
    stream = patches * spec.width;
    qkv = 3 * stream;
    hidden = std::max(patches * std::max<std::uint64_t>(spec.ffn, patch), rows * spec.inner_width);
    merged = spec.sound ? 0 : rows * merged_width(spec);
    projected = rows * spec.out_width;
    cache = std::uint64_t{pages} * engine::kv_page_positions * spec.width;
  }
  [[nodiscard]] std::uint64_t values() const noexcept {
    return 2 * stream + qkv + hidden + merged + projected + 2 * cache;
  }
};

std::uint64_t host_tower::bytes(const engine::tower_spec& spec) noexcept {
  const std::uint64_t turned = spec.transposed_projection ? merged_width(spec) * spec.out_width : 0;
  return (extents(spec).values() + turned) * sizeof(float);
}

host_tower::host_tower(const engine::tower& t, host::thread_pool& pool)
    : tower_(t), spec_(t.spec), pool_(pool), pixel_values_(768) {
  const extents of(spec_);
  memory_ = std::make_unique<float[]>(of.values());
  float* at = memory_.get();
  const auto take = [&](std::uint64_t values) { return std::exchange(at, at + values); };
  stream_ = take(of.stream);
  normed_ = take(of.stream);
  qkv_ = take(of.qkv);
  hidden_ = take(of.hidden);
  merged_ = take(of.merged);
  projected_ = take(of.projected);
  keys_ = take(of.cache);
  values_ = take(of.cache);
  for (std::uint32_t page = 0; page < of.pages; ++page) pages_.push_back(static_cast<std::int32_t>(page));
  columns_.resize(spec_.patches_max());
  if (!spec_.sound) engine::fill_pixel_values(spec_.pictures, pixel_values_);
  if (spec_.transposed_projection) projection_ = turned(t.weights.projection);
}

void host_tower::begin(const engine::prepared_medium& medium, std::function<float*(std::uint32_t)> row) {
  ORCD_ENSURE(medium.parts() > 0 && (medium.sound() != nullptr) == spec_.sound.has_value());
  medium_ = &medium;
  row_ = std::move(row);
  view_ = slice_ = 0;
  rows_done_ = 0;
}

bool host_tower::go_on() {
  ORCD_ENSURE(medium_ != nullptr);
  const std::size_t layers = tower_.weights.layers.size();
  if (slice_ == 0)
    spec_.sound ? embed_sound() : embed();
  else if (slice_ <= layers)
    run_layer(tower_.weights.layers[slice_ - 1]);
  else
    spec_.sound ? finish_chunk() : finish_view();
  if (++slice_ <= layers + 1) return false;
  slice_ = 0;
  if (++view_ < medium_->parts()) return false;
  medium_ = nullptr;
  return true;
}

void host_tower::embed() {
  const engine::picture& view = medium_->picture()->views[view_];
  const std::uint32_t side = spec_.pictures.patch;
  patch_rows_ = view.height / side;
  patch_columns_ = view.width / side;
  ORCD_ENSURE(patches() > 0 && patches() <= spec_.patches_max());
  const std::size_t values = std::size_t{3} * side * side;
  for (std::uint32_t i = 0; i < patches(); ++i) {
    engine::copy_patch(view, spec_.pictures, i % patch_columns_ * side, i / patch_columns_ * side,
                       pixel_values_, {hidden_ + i * values, values});
  }
  multiply(tower_.weights.patch, tower_.weights.patch_bias, hidden_, stream_, spec_.width);
  add_positions();
}

void host_tower::add_positions() {
  for (std::uint32_t i = 0; i < patches(); ++i) {
    decode(tower_.weights.positions, i, normed_);
    float* const to = stream_ + std::size_t{i} * spec_.width;
    for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += normed_[c];
  }
}

/// The first convolution's rows lie where Q, K and V come later, which have room for more.
void host_tower::embed_sound() {
  constexpr std::uint32_t frames = engine::chunk_frames;
  const engine::prepared_sound& sound = *medium_->sound();
  const engine::tower_weights& weights = tower_.weights;
  patch_rows_ = frames / 2;
  patch_columns_ = 1;
  spread(sound.frames.data() + view_ * frames * sound.bins, frames, sound.bins, 1, hidden_);
  multiply(weights.conv_1, weights.conv_1_bias, hidden_, qkv_, spec_.width, false, frames);
  gelu(qkv_, frames, spec_.width, false);
  spread(qkv_, frames, spec_.width, 2, hidden_);
  multiply(weights.conv_2, weights.conv_2_bias, hidden_, stream_, spec_.width);
  gelu(stream_, patches(), spec_.width, false);
  add_positions();
}

void host_tower::run_layer(const engine::tower_layer& layer) {
  const std::uint32_t width = spec_.width;
  normalise(layer.norm_1, layer.norm_1_bias);
  multiply(layer.q, layer.q_bias, normed_, qkv_, 3 * std::size_t{width});
  multiply(layer.k, layer.k_bias, normed_, qkv_ + width, 3 * std::size_t{width});
  multiply(layer.v, layer.v_bias, normed_, qkv_ + 2 * std::size_t{width}, 3 * std::size_t{width});
  attend();
  multiply(layer.out, layer.out_bias, normed_, stream_, width, true);
  normalise(layer.norm_2, layer.norm_2_bias);
  multiply(layer.up, layer.up_bias, normed_, hidden_, spec_.ffn);
  gelu(hidden_, patches(), spec_.ffn, spec_.gelu_tanh);
  multiply(layer.down, layer.down_bias, hidden_, stream_, width, true);
}

/// What the heads give replaces the normed rows.
void host_tower::attend() {
  const std::uint32_t width = spec_.width;
  for (std::uint32_t i = 0; i < patches(); ++i)
    columns_[i] = {.pages = pages_.data(), .position = i, .end = patches()};
  const kernels::attention_cache cache{reinterpret_cast<std::byte*>(keys_),
                                       reinterpret_cast<std::byte*>(values_)};
  host::store_kv({.k = qkv_ + width,
                  .v = qkv_ + 2 * std::size_t{width},
                  .stride = 3 * std::size_t{width},
                  .cache = cache,
                  .columns = columns_.data(),
                  .column_count = patches(),
                  .kv_heads = spec_.heads,
                  .key_width = spec_.head_width(),
                  .value_width = spec_.head_width(),
                  .types = cache_types},
                 pool_);
  host::attention({.q = qkv_,
                   .out = normed_,
                   .q_stride = 3 * std::size_t{width},
                   .cache = cache,
                   .columns = columns_.data(),
                   .column_count = patches(),
                   .heads = spec_.heads,
                   .kv_heads = spec_.heads,
                   .key_width = spec_.head_width(),
                   .value_width = spec_.head_width(),
                   .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.head_width()))),
                   .types = cache_types},
                  pool_);
}

void host_tower::finish_view() {
  const std::uint32_t merged = spec_.pictures.merge * spec_.pictures.merge;
  const std::uint32_t rows = patches() / merged;
  normalise(tower_.weights.post_norm, tower_.weights.post_norm_bias);
  merge_patches();
  const auto inputs = static_cast<std::uint32_t>(merged_width(spec_));
  if (tower_.weights.merge_norm) {
    host::rms_norm({.x = merged_,
                    .out = merged_,
                    .weight = floats_of(tower_.weights.merge_norm),
                    .x_stride = inputs,
                    .out_stride = inputs,
                    .rows = rows,
                    .width = inputs,
                    .eps = static_cast<float>(spec_.eps)},
                   pool_);
  }
  kernels::weight_matrix matrix{.data = reinterpret_cast<const std::byte*>(projection_.data()),
                                .rows = spec_.out_width,
                                .cols = inputs};
  if (!spec_.transposed_projection) matrix = matrix_of(tower_.weights.projection);
  const kernels::matmul_args product = {.weights = matrix,
                                        .x = merged_,
                                        .y = projected_,
                                        .x_stride = inputs,
                                        .y_stride = spec_.out_width,
                                        .columns = rows};
  host::matmul({&product, 1}, pool_);
  give_rows(rows);
}

/// Positions one after the other are what they are joined to.
void host_tower::finish_chunk() {
  const std::uint32_t rows = patches() / spec_.sound->stack;
  normalise(tower_.weights.post_norm, tower_.weights.post_norm_bias);
  multiply(tower_.weights.projection, {}, normed_, hidden_, spec_.inner_width, false, rows);
  gelu(hidden_, rows, spec_.inner_width, false);
  multiply(tower_.weights.projection_2, {}, hidden_, projected_, spec_.out_width, false, rows);
  give_rows(rows);
}

void host_tower::give_rows(std::uint32_t rows) {
  for (std::uint32_t i = 0; i < rows; ++i, ++rows_done_)
    std::memcpy(row_(rows_done_), projected_ + std::size_t{i} * spec_.out_width,
                spec_.out_width * sizeof(float));
}

void host_tower::gelu(float* values, std::uint32_t rows, std::uint32_t width, bool tanh_form) {
  host::gelu({.x = values, .out = values, .rows = rows, .width = width, .tanh_form = tanh_form}, pool_);
}

/// Squares of patches become one row each, by rows of the picture.
void host_tower::merge_patches() {
  const std::uint32_t side = spec_.pictures.merge;
  const std::size_t width = spec_.width;
  const std::size_t out_width = merged_width(spec_);
  const bool average = spec_.merge == engine::tower_merge::average;
  std::fill_n(merged_, out_width * (patches() / (side * side)), 0.0F);
  for (std::uint32_t y = 0; y < patch_rows_; ++y) {
    for (std::uint32_t x = 0; x < patch_columns_; ++x) {
      const std::size_t row = std::size_t{y / side} * (patch_columns_ / side) + x / side;
      const std::size_t within = average ? 0 : std::size_t{y % side} * side + x % side;
      float* const to = merged_ + row * out_width + within * width;
      const float* const from = normed_ + (std::size_t{y} * patch_columns_ + x) * width;
      for (std::size_t c = 0; c < width; ++c) to[c] += from[c];
    }
  }
  if (!average) return;
  const auto count = static_cast<float>(side * side);
  for (std::size_t i = 0; i < out_width * (patches() / (side * side)); ++i) merged_[i] /= count;
}

void host_tower::normalise(const engine::tensor_view& weight, const engine::tensor_view& bias) {
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

void host_tower::multiply(const engine::tensor_view& matrix, const engine::tensor_view& bias, const float* x,
                          float* y, std::size_t y_stride, bool accumulate, std::uint32_t columns) {
  const kernels::matmul_args product = {.weights = matrix_of(matrix),
                                        .x = x,
                                        .y = y,
                                        .x_stride = matrix.cols(),
                                        .y_stride = y_stride,
                                        .columns = columns == 0 ? patches() : columns,
                                        .bias = floats_of(bias),
                                        .accumulate = accumulate};
  host::matmul({&product, 1}, pool_);
}

}  // namespace orcd::gpu
