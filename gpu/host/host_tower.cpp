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
#include "kernels/host/rope.hpp"
#include "kernels/host/swiglu.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

constexpr engine::kv_types cache_types{engine::kv_type::f32, engine::kv_type::f32};

std::uint64_t merged_width(const engine::tower_spec& spec) noexcept {
  const bool joins = spec.merge == engine::tower_merge::concatenate;
  return joins ? spec.joined_width() : spec.width;
}

/// What a position of a sound is made of, for the larger of the convolutions; two frames are a position.
std::uint64_t conv_values(const engine::tower_spec& spec) noexcept {
  return 3ULL * std::max(spec.width, 2 * spec.sound->bins);
}

/// Pages that a window's patches take.
std::uint32_t window_pages(const engine::tower_spec& spec) noexcept {
  return engine::pages_over(spec.window * spec.window, engine::kv_page_positions);
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

/// W0 + W1: a still picture is in both frames.
std::vector<float> summed(const engine::tensor_view& first, const engine::tensor_view& second) {
  const std::uint64_t cols = first.cols();
  std::vector<float> out(first.rows() * cols), row(cols);
  for (std::uint64_t r = 0; r < first.rows(); ++r) {
    float* const to = out.data() + r * cols;
    decode(first, r, to);
    decode(second, r, row.data());
    for (std::uint64_t c = 0; c < cols; ++c) to[c] += row[c];
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
    const std::uint64_t ffn = std::uint64_t{spec.ffn} * (engine::has_gate(spec.activation) ? 3 : 1);
    pages = engine::pages_over(spec.patches_max(), engine::kv_page_positions);
    if (spec.window > 0) pages = std::max(pages, window_pages(spec));
    stream = patches * spec.width;
    qkv = 3 * stream;
    hidden = std::max(patches * std::max(ffn, patch),
                      rows * std::max<std::uint64_t>(merged_width(spec), spec.inner_width));
    merged = rows * merged_width(spec);
    projected = rows * spec.row_width();
    cache = std::uint64_t{pages} * engine::kv_page_positions * spec.width;
  }
  [[nodiscard]] std::uint64_t values() const noexcept {
    return 2 * stream + qkv + hidden + merged + projected + 2 * cache;
  }
};

std::uint64_t host_tower::bytes(const engine::tower_spec& spec) noexcept {
  const std::uint64_t turned = spec.transposed_projection ? merged_width(spec) * spec.out_width : 0;
  const std::uint64_t patch =
      spec.two_frames ? 3ULL * spec.pictures.patch * spec.pictures.patch * spec.width : 0;
  return (extents(spec).values() + turned + patch) * sizeof(float) + view_layout::bytes(spec);
}

host_tower::host_tower(const engine::tower& t, host::thread_pool& pool)
    : tower_(t), spec_(t.spec), pool_(pool), layout_(t.spec), pixel_values_(768) {
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
  if (spec_.two_frames) patch_ = summed(t.weights.patch, t.weights.second_frame);
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
    finish_view();
  if (++slice_ <= layers + 1) return false;
  slice_ = 0;
  if (++view_ < medium_->parts()) return false;
  medium_ = nullptr;
  return true;
}

void host_tower::embed() {
  const engine::picture& view = medium_->picture()->views[view_];
  const std::uint32_t side = spec_.pictures.patch;
  layout_.set(view.height / side, view.width / side, pool_);
  deepstack_done_ = 0;
  const std::size_t values = std::size_t{3} * side * side;
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const patch_place at = layout_.places()[i];
    engine::copy_patch(view, spec_.pictures, at.column * side, at.line * side, pixel_values_,
                       {hidden_ + i * values, values});
  }
  kernels::weight_matrix matrix{.data = reinterpret_cast<const std::byte*>(patch_.data()),
                                .rows = spec_.width,
                                .cols = static_cast<std::uint32_t>(values)};
  if (!spec_.two_frames) matrix = matrix_of(tower_.weights.patch);
  const kernels::matmul_args product = {.weights = matrix,
                                        .x = hidden_,
                                        .y = stream_,
                                        .x_stride = values,
                                        .y_stride = spec_.width,
                                        .columns = patches(),
                                        .bias = floats_of(tower_.weights.patch_bias)};
  host::matmul({&product, 1}, pool_);
  if (spec_.positions == engine::tower_positions::each) add_positions();
  if (spec_.positions == engine::tower_positions::between) add_positions_between();
}

/// The first convolution's rows lie where Q, K and V come later, which have room for more.
void host_tower::embed_sound() {
  constexpr std::uint32_t frames = engine::chunk_frames;
  const engine::prepared_sound& sound = *medium_->sound();
  const engine::tower_weights& weights = tower_.weights;
  layout_.set(frames / 2, 1, pool_);
  deepstack_done_ = 0;
  spread(sound.frames.data() + view_ * frames * sound.bins, frames, sound.bins, 1, hidden_);
  multiply(weights.conv_1, weights.conv_1_bias, hidden_, qkv_, spec_.width, false, frames);
  gelu(qkv_, frames, spec_.width, false);
  spread(qkv_, frames, spec_.width, 2, hidden_);
  multiply(weights.conv_2, weights.conv_2_bias, hidden_, stream_, spec_.width);
  gelu(stream_, patches(), spec_.width, false);
  add_positions();
}

void host_tower::add_positions() {
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const patch_place at = layout_.places()[i];
    decode(tower_.weights.positions, at.line * layout_.columns() + at.column, normed_);
    float* const to = stream_ + std::size_t{i} * spec_.width;
    for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += normed_[c];
  }
}

/// The four rows around a patch's place, by how near each is.
void host_tower::add_positions_between() {
  const std::uint32_t side = spec_.position_side;
  struct between {
    std::uint32_t low, high;
    float share;  ///< of `high`
  };
  const auto place = [side](std::uint32_t index, std::uint32_t count) {
    const double at = count < 2 ? 0.0 : static_cast<double>(index) * (side - 1) / (count - 1);
    const auto low = static_cast<std::uint32_t>(at);
    return between{low, std::min(low + 1, side - 1), static_cast<float>(at - low)};
  };
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const between y = place(layout_.places()[i].line, layout_.lines());
    const between x = place(layout_.places()[i].column, layout_.columns());
    float* const to = stream_ + std::size_t{i} * spec_.width;
    std::fill_n(hidden_, spec_.width, 0.0F);
    const auto add = [&](std::uint32_t line, std::uint32_t column, float share) {
      decode(tower_.weights.positions, std::uint64_t{line} * side + column, normed_);
      for (std::uint32_t c = 0; c < spec_.width; ++c) hidden_[c] += share * normed_[c];
    };
    add(y.low, x.low, (1.0F - y.share) * (1.0F - x.share));
    add(y.low, x.high, (1.0F - y.share) * x.share);
    add(y.high, x.low, y.share * (1.0F - x.share));
    add(y.high, x.high, y.share * x.share);
    for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += hidden_[c];
  }
}

void host_tower::run_layer(const engine::tower_layer& layer) {
  normalise(layer.norm_1, layer.norm_1_bias);
  project_heads(layer);
  if (spec_.rotates) rotate_heads();
  attend(spec_.window > 0 && slice_ % spec_.full_every != 0);
  multiply(layer.out, layer.out_bias, normed_, stream_, spec_.width, true);
  normalise(layer.norm_2, layer.norm_2_bias);
  feed_forward(layer);
  if (layer.deepstack) keep_deepstack(*layer.deepstack);
}

void host_tower::project_heads(const engine::tower_layer& layer) {
  const std::size_t width = spec_.width, row = 3 * width;
  if (layer.qkv) return multiply(layer.qkv, layer.qkv_bias, normed_, qkv_, row);
  multiply(layer.q, layer.q_bias, normed_, qkv_, row);
  multiply(layer.k, layer.k_bias, normed_, qkv_ + width, row);
  multiply(layer.v, layer.v_bias, normed_, qkv_ + 2 * width, row);
}

/// Q and K lie one behind the other, so that they are one row of heads.
void host_tower::rotate_heads() {
  host::rope({.x = qkv_,
              .cosines = layout_.cosines(),
              .sines = layout_.sines(),
              .x_stride = 3 * std::size_t{spec_.width},
              .columns = patches(),
              .heads = 2 * spec_.heads,
              .head_width = spec_.head_width(),
              .pairs = spec_.head_width() / 2},
             pool_);
}

/// What the heads give replaces the normed rows. A window's patches have pages of their own, as many windows
/// at once as there are pages for.
void host_tower::attend(bool windows) {
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

void host_tower::attend_range(std::uint32_t first, std::uint32_t count) {
  const std::size_t width = spec_.width, stride = 3 * width;
  const float* const at = qkv_ + first * stride;
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
                   .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec_.head_width()))),
                   .types = cache_types},
                  pool_);
}

void host_tower::feed_forward(const engine::tower_layer& layer) {
  const std::size_t ffn = spec_.ffn;
  if (engine::has_gate(spec_.activation)) {
    float* const activated = hidden_ + 2 * ffn * patches();
    multiply(layer.gate, layer.gate_bias, normed_, hidden_, 2 * ffn);
    multiply(layer.up, layer.up_bias, normed_, hidden_ + ffn, 2 * ffn);
    host::swiglu({.gate = hidden_,
                  .up = hidden_ + ffn,
                  .out = activated,
                  .in_stride = 2 * ffn,
                  .rows = patches(),
                  .width = spec_.ffn},
                 pool_);
    return multiply(layer.down, layer.down_bias, activated, stream_, spec_.width, true);
  }
  multiply(layer.up, layer.up_bias, normed_, hidden_, ffn);
  gelu(hidden_, patches(), spec_.ffn, spec_.activation == engine::ffn_activation::gelu_tanh);
  multiply(layer.down, layer.down_bias, hidden_, stream_, spec_.width, true);
}

/// Of the stream itself: a merger with a norm has it over the joined row.
void host_tower::keep_deepstack(const engine::tower_merger& merger) {
  merge_patches(stream_);
  const auto width = static_cast<std::uint32_t>(merged_width(spec_));
  host::layer_norm({.x = merged_,
                    .out = merged_,
                    .weight = floats_of(merger.norm),
                    .bias = floats_of(merger.norm_bias),
                    .x_stride = width,
                    .out_stride = width,
                    .rows = view_rows(),
                    .width = width,
                    .eps = static_cast<float>(spec_.eps)},
                   pool_);
  run_merger(merger, projected_ + std::size_t{++deepstack_done_} * spec_.out_width);
}

/// From the joined rows to parts of the rows that are given away.
void host_tower::run_merger(const engine::tower_merger& merger, float* out) {
  const auto width = static_cast<std::uint32_t>(merger.first.rows());
  kernels::matmul_args product = {.weights = matrix_of(merger.first),
                                  .x = merged_,
                                  .y = hidden_,
                                  .x_stride = merged_width(spec_),
                                  .y_stride = width,
                                  .columns = view_rows(),
                                  .bias = floats_of(merger.first_bias)};
  host::matmul({&product, 1}, pool_);
  gelu(hidden_, view_rows(), width, false);
  product = {.weights = matrix_of(merger.second),
             .x = hidden_,
             .y = out,
             .x_stride = width,
             .y_stride = spec_.row_width(),
             .columns = view_rows(),
             .bias = floats_of(merger.second_bias)};
  host::matmul({&product, 1}, pool_);
}

void host_tower::finish_view() {
  normalise(tower_.weights.post_norm, tower_.weights.post_norm_bias);
  merge_patches(normed_);
  if (tower_.weights.merger.first)
    run_merger(tower_.weights.merger, projected_);
  else
    project_rows();
  for (std::uint32_t i = 0; i < view_rows(); ++i, ++rows_done_)
    std::memcpy(row_(rows_done_), projected_ + std::size_t{i} * spec_.row_width(),
                spec_.row_width() * sizeof(float));
}

void host_tower::project_rows() {
  const std::uint32_t rows = view_rows();
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
                                        .y_stride = spec_.row_width(),
                                        .columns = rows};
  host::matmul({&product, 1}, pool_);
}

/// Squares of patches become one row each, by rows of the picture.
void host_tower::merge_patches(const float* from) {
  // Those of a sound lie one after the other.
  if (spec_.sound) return void(std::copy_n(from, std::size_t{patches()} * spec_.width, merged_));
  const std::uint32_t side = spec_.pictures.merge;
  const std::size_t width = spec_.width;
  const std::size_t out_width = merged_width(spec_);
  const bool average = spec_.merge == engine::tower_merge::average;
  std::fill_n(merged_, out_width * view_rows(), 0.0F);
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const auto [y, x] = layout_.places()[i];
    const std::size_t row = std::size_t{y / side} * (layout_.columns() / side) + x / side;
    const std::size_t within = average ? 0 : std::size_t{y % side} * side + x % side;
    float* const to = merged_ + row * out_width + within * width;
    for (std::size_t c = 0; c < width; ++c) to[c] += from[i * width + c];
  }
  if (!average) return;
  const auto count = static_cast<float>(side * side);
  for (std::size_t i = 0; i < out_width * view_rows(); ++i) merged_[i] /= count;
}

void host_tower::normalise(const engine::tensor_view& weight, const engine::tensor_view& bias) {
  if (spec_.norm == engine::norm_kind::rms) {
    return host::rms_norm({.x = stream_,
                           .out = normed_,
                           .weight = floats_of(weight),
                           .x_stride = spec_.width,
                           .out_stride = spec_.width,
                           .rows = patches(),
                           .width = spec_.width,
                           .eps = static_cast<float>(spec_.eps)},
                          pool_);
  }
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

void host_tower::gelu(float* values, std::uint32_t rows, std::uint32_t width, bool tanh_form) {
  host::gelu({.x = values, .out = values, .rows = rows, .width = width, .tanh_form = tanh_form}, pool_);
}

}  // namespace orcd::gpu
