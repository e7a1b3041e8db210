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
  return std::uint64_t{spec.width} * (joins ? spec.pictures.merge * spec.pictures.merge : 1);
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

}  // namespace

/// Values of each part of the memory.
struct host_tower::extents {
  std::uint64_t stream, qkv, hidden, merged, projected, cache;
  std::uint32_t pages;

  explicit extents(const engine::tower_spec& spec) {
    const std::uint64_t patches = spec.patches_max();
    const std::uint64_t rows = spec.view_rows_max();
    const std::uint64_t patch = 3ULL * spec.pictures.patch * spec.pictures.patch;
    pages = engine::pages_over(spec.patches_max(), engine::kv_page_positions);
    stream = patches * spec.width;
    qkv = 3 * stream;
    hidden = patches * std::max<std::uint64_t>(spec.ffn, patch);
    merged = rows * merged_width(spec);
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
  engine::fill_pixel_values(spec_.pictures, pixel_values_);
  if (spec_.transposed_projection) projection_ = turned(t.weights.projection);
}

void host_tower::begin(const engine::prepared_picture& picture, std::function<float*(std::uint32_t)> row) {
  ORCD_ENSURE(!picture.views.empty());
  picture_ = &picture;
  row_ = std::move(row);
  view_ = slice_ = 0;
  rows_done_ = 0;
}

bool host_tower::go_on() {
  ORCD_ENSURE(picture_ != nullptr);
  const std::size_t layers = tower_.weights.layers.size();
  if (slice_ == 0)
    embed();
  else if (slice_ <= layers)
    run_layer(tower_.weights.layers[slice_ - 1]);
  else
    finish_view();
  if (++slice_ <= layers + 1) return false;
  slice_ = 0;
  if (++view_ < picture_->views.size()) return false;
  picture_ = nullptr;
  return true;
}

void host_tower::embed() {
  const engine::picture& view = picture_->views[view_];
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
  for (std::uint32_t i = 0; i < patches(); ++i) {
    decode(tower_.weights.positions, i, normed_);
    float* const to = stream_ + std::size_t{i} * spec_.width;
    for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += normed_[c];
  }
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
  host::gelu({.x = hidden_, .out = hidden_, .rows = patches(), .width = spec_.ffn, .tanh_form = true}, pool_);
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
  for (std::uint32_t i = 0; i < rows; ++i, ++rows_done_)
    std::memcpy(row_(rows_done_), projected_ + std::size_t{i} * spec_.out_width,
                spec_.out_width * sizeof(float));
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
                          float* y, std::size_t y_stride, bool accumulate) {
  const kernels::matmul_args product = {.weights = matrix_of(matrix),
                                        .x = x,
                                        .y = y,
                                        .x_stride = matrix.cols(),
                                        .y_stride = y_stride,
                                        .columns = patches(),
                                        .bias = floats_of(bias),
                                        .accumulate = accumulate};
  host::matmul({&product, 1}, pool_);
}

}  // namespace orcd::gpu
