#include "gpu/host/host_tower.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/media/prepare_picture.hpp"
#include "gpu/host/host_tensors.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/rms_norm.hpp"

namespace orcd::gpu {

namespace host = kernels::host;

namespace {

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

std::uint64_t host_tower::bytes(const engine::tower_spec& spec) noexcept {
  const std::uint64_t rows = spec.view_rows_max();
  const std::uint64_t turned = spec.transposed_projection ? merged_width(spec) * spec.out_width : 0;
  const std::uint64_t patch =
      spec.two_frames ? 3ULL * spec.pictures.patch * spec.pictures.patch * spec.width : 0;
  return (rows * (merged_width(spec) + spec.row_width()) + turned + patch) * sizeof(float) +
         host_tower_layers::bytes(spec) + view_layout::bytes(spec);
}

host_tower::host_tower(const engine::tower& t, host::thread_pool& pool)
    : tower_(t),
      spec_(t.spec),
      pool_(pool),
      layout_(t.spec),
      layers_(t.spec, layout_, pool),
      merged_(spec_.view_rows_max() * merged_width(spec_)),
      projected_(std::size_t{spec_.view_rows_max()} * spec_.row_width()),
      pixel_values_(768) {
  if (!spec_.sound) engine::fill_pixel_values(spec_.pictures, pixel_values_);
  if (spec_.transposed_projection) projection_ = turned_matrix(t.weights.projection);
  // A still picture is in both frames.
  if (spec_.two_frames) patch_ = summed_matrices(t.weights.patch, t.weights.second_frame);
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
    run_layer();
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
    const kernels::view_place at = layout_.places()[i];
    engine::copy_patch(view, spec_.pictures, at.column * side, at.line * side, pixel_values_,
                       {layers_.hidden() + i * values, values});
  }
  kernels::weight_matrix matrix{.data = reinterpret_cast<const std::byte*>(patch_.data()),
                                .rows = spec_.width,
                                .cols = static_cast<std::uint32_t>(values)};
  if (!spec_.two_frames) matrix = matrix_of(tower_.weights.patch);
  const kernels::matmul_args product = {.weights = matrix,
                                        .x = layers_.hidden(),
                                        .y = layers_.stream(),
                                        .x_stride = values,
                                        .y_stride = spec_.width,
                                        .columns = patches(),
                                        .bias = floats_of(tower_.weights.patch_bias)};
  host::matmul({&product, 1}, pool_);
  if (spec_.pre_norm) {
    layers_.normalise(tower_.weights.pre_norm, {});
    std::copy_n(layers_.normed(), std::size_t{patches()} * spec_.width, layers_.stream());
  }
  if (spec_.positions == engine::tower_positions::each) add_positions();
  if (spec_.positions == engine::tower_positions::between) add_positions_between();
  if (spec_.positions == engine::tower_positions::by_side) add_positions_by_side();
}

/// The first convolution's rows lie where Q, K and V come later, which have room for more.
void host_tower::embed_sound() {
  constexpr std::uint32_t frames = engine::chunk_frames;
  const engine::prepared_sound& sound = *medium_->sound();
  const engine::tower_weights& weights = tower_.weights;
  layout_.set(frames / 2, 1, pool_);
  deepstack_done_ = 0;
  spread(sound.frames.data() + view_ * frames * sound.bins, frames, sound.bins, 1, layers_.hidden());
  convolve(weights.conv_1, weights.conv_1_bias, layers_.hidden(), layers_.wide(), frames);
  spread(layers_.wide(), frames, spec_.width, 2, layers_.hidden());
  convolve(weights.conv_2, weights.conv_2_bias, layers_.hidden(), layers_.stream(), patches());
  add_positions();
}

void host_tower::add_positions() {
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const kernels::view_place at = layout_.places()[i];
    decode_row(tower_.weights.positions, at.line * layout_.columns() + at.column, layers_.normed());
    float* const to = layers_.stream() + std::size_t{i} * spec_.width;
    for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += layers_.normed()[c];
  }
}

void host_tower::add_positions_by_side() {
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const kernels::view_place at = layout_.places()[i];
    float* const to = layers_.stream() + std::size_t{i} * spec_.width;
    for (const std::uint64_t row : {std::uint64_t{at.column}, std::uint64_t{spec_.position_side} + at.line}) {
      decode_row(tower_.weights.positions, row, layers_.normed());
      for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += layers_.normed()[c];
    }
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
    float* const to = layers_.stream() + std::size_t{i} * spec_.width;
    std::fill_n(layers_.hidden(), spec_.width, 0.0F);
    const auto add = [&](std::uint32_t line, std::uint32_t column, float share) {
      decode_row(tower_.weights.positions, std::uint64_t{line} * side + column, layers_.normed());
      for (std::uint32_t c = 0; c < spec_.width; ++c) layers_.hidden()[c] += share * layers_.normed()[c];
    };
    add(y.low, x.low, (1.0F - y.share) * (1.0F - x.share));
    add(y.low, x.high, (1.0F - y.share) * x.share);
    add(y.high, x.low, y.share * (1.0F - x.share));
    add(y.high, x.high, y.share * x.share);
    for (std::uint32_t c = 0; c < spec_.width; ++c) to[c] += layers_.hidden()[c];
  }
}

void host_tower::run_layer() {
  const engine::tower_layer& layer = tower_.weights.layers[slice_ - 1];
  layers_.run(layer, slice_);
  if (layer.deepstack) keep_deepstack(*layer.deepstack);
}

/// Of the stream itself: a merger with a norm has it over the joined row.
void host_tower::keep_deepstack(const engine::tower_merger& merger) {
  merge_patches(layers_.stream());
  const auto width = static_cast<std::uint32_t>(merged_width(spec_));
  host::layer_norm({.x = merged_.data(),
                    .out = merged_.data(),
                    .weight = floats_of(merger.norm),
                    .bias = floats_of(merger.norm_bias),
                    .x_stride = width,
                    .out_stride = width,
                    .rows = view_rows(),
                    .width = width,
                    .eps = static_cast<float>(spec_.eps)},
                   pool_);
  run_merger(merger, projected_.data() + std::size_t{++deepstack_done_} * spec_.out_width);
}

/// From the joined rows to parts of the rows that are given away.
void host_tower::run_merger(const engine::tower_merger& merger, float* out) {
  const auto width = static_cast<std::uint32_t>(merger.first.rows());
  kernels::matmul_args product = {.weights = matrix_of(merger.first),
                                  .x = spec_.reduces ? layers_.normed() : merged_.data(),
                                  .y = layers_.hidden(),
                                  .x_stride = merger.first.cols(),
                                  .y_stride = width,
                                  .columns = view_rows(),
                                  .bias = floats_of(merger.first_bias)};
  host::matmul({&product, 1}, pool_);
  gelu(layers_.hidden(), view_rows(), width);
  product = {.weights = matrix_of(merger.second),
             .x = layers_.hidden(),
             .y = out,
             .x_stride = width,
             .y_stride = spec_.row_width(),
             .columns = view_rows(),
             .bias = floats_of(merger.second_bias)};
  host::matmul({&product, 1}, pool_);
}

void host_tower::finish_view() {
  if (spec_.end_norm) layers_.normalise(tower_.weights.post_norm, tower_.weights.post_norm_bias);
  merge_patches(spec_.end_norm ? layers_.normed() : layers_.stream());
  if (spec_.reduces) reduce_rows();
  if (tower_.weights.merger.first)
    run_merger(tower_.weights.merger, projected_.data());
  else
    project_rows();
  for (std::uint32_t i = 0; i < view_rows(); ++i, ++rows_done_)
    std::memcpy(row_(rows_done_), projected_.data() + std::size_t{i} * spec_.row_width(),
                spec_.row_width() * sizeof(float));
}

/// They lie where the normed patches were.
void host_tower::reduce_rows() {
  const kernels::matmul_args product = {.weights = matrix_of(tower_.weights.reduction),
                                        .x = merged_.data(),
                                        .y = layers_.normed(),
                                        .x_stride = merged_width(spec_),
                                        .y_stride = spec_.width,
                                        .columns = view_rows()};
  host::matmul({&product, 1}, pool_);
}

void host_tower::project_rows() {
  const std::uint32_t rows = view_rows();
  const auto inputs = static_cast<std::uint32_t>(merged_width(spec_));
  if (spec_.merge == engine::tower_merge::average) {
    host::rms_norm({.x = merged_.data(),
                    .out = merged_.data(),
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
                                        .x = merged_.data(),
                                        .y = projected_.data(),
                                        .x_stride = inputs,
                                        .y_stride = spec_.row_width(),
                                        .columns = rows};
  host::matmul({&product, 1}, pool_);
}

/// Squares of patches become one row each, by rows of the picture.
void host_tower::merge_patches(const float* from) {
  // Those of a sound lie one after the other.
  if (spec_.sound) return void(std::copy_n(from, std::size_t{patches()} * spec_.width, merged_.data()));
  const std::uint32_t side = spec_.pictures.merge;
  const std::size_t width = spec_.width;
  const std::size_t out_width = merged_width(spec_);
  const bool average = spec_.merge == engine::tower_merge::average;
  // In a joined row the patches of a square lie one after the other, or their values of each channel do.
  const std::size_t patch_step = average ? 0 : spec_.reduces ? 1 : width;
  const std::size_t channel_step = spec_.reduces ? std::size_t{side} * side : 1;
  std::fill_n(merged_.data(), out_width * view_rows(), 0.0F);
  for (std::uint32_t i = 0; i < patches(); ++i) {
    const auto [y, x] = layout_.places()[i];
    const std::size_t row = std::size_t{y / side} * (layout_.columns() / side) + x / side;
    const std::size_t within = std::size_t{y % side} * side + x % side;
    float* const to = merged_.data() + row * out_width + within * patch_step;
    for (std::size_t c = 0; c < width; ++c) to[c * channel_step] += from[i * width + c];
  }
  if (!average) return;
  const auto count = static_cast<float>(side * side);
  const auto scale = static_cast<float>(spec_.merge_scale);
  const float* const bias = floats_of(tower_.weights.std_bias);
  const float* const factor = floats_of(tower_.weights.std_scale);
  for (std::size_t i = 0; i < out_width * view_rows(); ++i) {
    merged_[i] = merged_[i] / count * scale;
    if (factor != nullptr) merged_[i] = (merged_[i] - bias[i % width]) * factor[i % width];
  }
}

void host_tower::convolve(const engine::tensor_view& kernel, const engine::tensor_view& bias, const float* x,
                          float* y, std::uint32_t places) {
  const kernels::matmul_args product = {.weights = matrix_of(kernel),
                                        .x = x,
                                        .y = y,
                                        .x_stride = kernel.cols(),
                                        .y_stride = spec_.width,
                                        .columns = places,
                                        .bias = floats_of(bias)};
  host::matmul({&product, 1}, pool_);
  gelu(y, places, spec_.width);
}

void host_tower::gelu(float* values, std::uint32_t rows, std::uint32_t width) {
  host::gelu({.x = values, .out = values, .rows = rows, .width = width}, pool_);
}

}  // namespace orcd::gpu
