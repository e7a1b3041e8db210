#include "gpu/cuda/media/cuda_tower.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "kernels/layer/stream.hpp"
#include "kernels/tower/tower_input.hpp"

namespace orcd::gpu {
namespace {

kernels::position_rows rows_of(engine::tower_positions positions) noexcept {
  return positions == engine::tower_positions::between   ? kernels::position_rows::between
         : positions == engine::tower_positions::by_side ? kernels::position_rows::by_side
                                                         : kernels::position_rows::each;
}

}  // namespace

cuda_tower::cuda_tower(const engine::tower_spec& spec, cuda_tower_weights weights, const media_layout& layout,
                       const vram_arena& arena, bool pinned, cudaStream_t stream)
    : spec_(spec),
      weights_(std::move(weights)),
      at_(layout, arena),
      device_blocks_(arena.at<std::uint32_t>(layout.blocks)),
      stream_(stream),
      products_(arena.at<__half>(layout.image), layout.image_bytes, stream),
      layers_(spec, at_, products_, stream),
      places_(spec),
      upload_(pinned) {
  patch_at_.reserve(spec.sound ? 0 : spec.patches_max());
  ranges_.reserve(spec.window > 0 ? spec.patches_max() : 0);
  for (event& done : slices_done_) done = make_event();
}

void cuda_tower::begin(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks,
                       const kernels::row_store& store) {
  ORCD_ENSURE(medium.parts() > 0 && (medium.sound() != nullptr) == spec_.sound.has_value());
  medium_ = &medium;
  store_ = store;
  part_ = slice_ = 0;
  rows_done_ = 0;
  upload_.begin(stream_);
  upload_.send(blocks.data(), blocks.size_bytes(), device_blocks_);
  upload_.end(stream_);
}

bool cuda_tower::go_on() {
  ORCD_ENSURE(medium_ != nullptr);
  bound_slices();
  const std::size_t layers = weights_.layers.size();
  if (slice_ == 0)
    spec_.sound ? embed_sound() : embed();
  else if (slice_ <= layers)
    run_layer();
  else
    finish_view();
  ORCD_CUDA(cudaEventRecord(slices_done_[slices_++ % 2].get(), stream_));
  if (++slice_ <= layers + 1) return false;
  slice_ = 0;
  if (++part_ < medium_->parts()) return false;
  medium_ = nullptr;
  return true;
}

/// A step that comes now waits for two slices at most, as would one of the host.
void cuda_tower::bound_slices() {
  if (slices_ >= 2) ORCD_CUDA(cudaEventSynchronize(slices_done_[slices_ % 2].get()));
}

/// Which patches lie where, and which see each other: tiles of a window's queries.
void cuda_tower::set_view(std::uint32_t lines, std::uint32_t columns) {
  places_.set(lines, columns);
  patch_at_.clear();
  ranges_.clear();
  if (!spec_.sound) {
    patch_at_.resize(std::size_t{lines} * columns);
    const auto places = places_.places();
    for (std::uint32_t i = 0; i < places.size(); ++i)
      patch_at_[std::size_t{places[i].line} * columns + places[i].column] = i;
  }
  std::uint32_t begin = 0;
  for (const std::uint32_t end : places_.window_ends()) {
    for (std::uint32_t first = begin; first < end; first += kernels::tower_query_tile)
      ranges_.push_back({first, std::min(kernels::tower_query_tile, end - first), begin, end - begin});
    begin = end;
  }
  view_ = {lines, columns, static_cast<std::uint32_t>(ranges_.size())};
  deepstack_done_ = 0;
}

void cuda_tower::send_view() {
  upload_.send(places_.places().data(), places_.places().size_bytes(), at_.places);
  upload_.send(patch_at_.data(), patch_at_.size() * sizeof(patch_at_[0]), at_.patch_at);
  upload_.send(ranges_.data(), ranges_.size() * sizeof(ranges_[0]), at_.ranges);
}

void cuda_tower::embed() {
  const engine::picture& view = medium_->picture()->views[part_];
  const std::uint32_t side = spec_.pictures.patch;
  set_view(view.height / side, view.width / side);
  upload_.begin(stream_);
  send_view();
  upload_.send(view.rgb.data(), view.rgb.size(), at_.content);
  upload_.end(stream_);
  kernels::gather_patches_args gather;
  gather.rgb = reinterpret_cast<const std::uint8_t*>(at_.content);
  gather.width = view.width;
  gather.side = side;
  gather.places = at_.places;
  gather.values = weights_.pixel_values;
  gather.patches = view_.patches();
  gather.out = at_.halves;
  gather.out_stride = kernels::padded_cols(weights_.patch.weight.cols);
  ORCD_CUDA(kernels::launch_gather_patches(gather, stream_));
  multiply_rows(weights_.patch, at_.halves, at_.stream, view_.patches());
  if (spec_.pre_norm) layers_.normalise_stream(weights_.pre_norm, nullptr, view_.patches());
  if (spec_.positions != engine::tower_positions::none) add_positions(false);
  if (weights_.turn_rates == nullptr) return;
  kernels::turn_table_args turns;
  turns.places = at_.places;
  turns.rates = weights_.turn_rates;
  turns.patches = view_.patches();
  turns.pairs = spec_.head_width() / 2;
  turns.lines_first = spec_.rotation != engine::tower_rotation::parted;
  turns.table = at_.turns;
  ORCD_CUDA(kernels::launch_turn_table(turns, stream_));
}

void cuda_tower::embed_sound() {
  constexpr std::uint32_t frames = engine::chunk_frames;
  const engine::prepared_sound& sound = *medium_->sound();
  set_view(frames / 2, 1);
  const std::uint64_t values = std::uint64_t{frames} * sound.bins;
  upload_.begin(stream_);
  send_view();
  upload_.send(sound.frames.data() + part_ * values, values * sizeof(float), at_.content);
  upload_.end(stream_);
  kernels::spread_places_args spread;
  spread.x = reinterpret_cast<const float*>(at_.content);
  spread.places = frames;
  spread.channels = sound.bins;
  spread.out = at_.halves;
  spread.out_stride = kernels::padded_cols(weights_.conv_1.weight.cols);
  ORCD_CUDA(kernels::launch_spread_places(spread, stream_));
  multiply_rows(weights_.conv_1, at_.halves, at_.floats, frames);
  spread.x = at_.floats;
  spread.channels = spec_.width;
  spread.step = 2;
  spread.activate = true;
  spread.out_stride = kernels::padded_cols(weights_.conv_2.weight.cols);
  ORCD_CUDA(kernels::launch_spread_places(spread, stream_));
  multiply_rows(weights_.conv_2, at_.halves, at_.stream, view_.patches());
  add_positions(true);
}

/// Of rows in f16 as long as the matrix's padded rows; its outputs follow each other.
void cuda_tower::multiply_rows(const cuda_tower_matrix& matrix, const __half* x, float* y,
                               std::uint32_t rows) const {
  kernels::packed_matmul_args product;
  product.w[0] = matrix.weight;
  product.bias[0] = matrix.bias;
  product.x = x;
  product.x_stride = kernels::padded_cols(matrix.weight.cols);
  product.out = y;
  product.out_stride = matrix.weight.rows;
  products_.multiply(product, rows);
}

void cuda_tower::add_positions(bool activate) const {
  kernels::add_places_args args;
  args.x = at_.stream;
  args.rows = weights_.positions;
  args.places = at_.places;
  args.form = rows_of(spec_.positions);
  args.side = spec_.position_side;
  args.lines = view_.lines;
  args.columns = view_.columns;
  args.width = spec_.width;
  args.patches = view_.patches();
  args.activate = activate;
  ORCD_CUDA(kernels::launch_add_places(args, stream_));
}

void cuda_tower::run_layer() {
  const cuda_tower_layer& layer = weights_.layers[slice_ - 1];
  layers_.run(layer, slice_, view_);
  if (layer.deepstack) keep_deepstack(*layer.deepstack);
}

/// Of the stream itself: a merger with a norm has it over the joined row.
void cuda_tower::keep_deepstack(const cuda_tower_merger& merger) {
  merge(at_.floats);
  kernels::state_to_half_args norm;
  norm.x = at_.floats;
  norm.weight = merger.norm;
  norm.bias = merger.norm_bias;
  norm.width = static_cast<std::uint32_t>(merged_width(spec_));
  norm.columns = view_rows();
  norm.eps = static_cast<float>(spec_.eps);
  norm.out = at_.halves;
  norm.out_stride = kernels::padded_cols(norm.width);
  ORCD_CUDA(kernels::launch_state_to_half(norm, stream_));
  run_merger(merger, at_.halves, ++deepstack_done_);
}

/// From joined rows to part `part` of the rows that are given away.
void cuda_tower::run_merger(const cuda_tower_merger& merger, const __half* x, std::uint32_t part) const {
  multiply_rows(merger.first, x, at_.floats, view_rows());
  kernels::activate_rows_args inner;
  inner.x = at_.floats;
  inner.width = merger.first.weight.rows;
  inner.rows = view_rows();
  inner.out = at_.halves;
  inner.out_stride = kernels::padded_cols(inner.width);
  ORCD_CUDA(kernels::launch_activate_rows(inner, stream_));
  multiply_rows(merger.second, at_.halves, at_.floats, view_rows());
  store(part);
}

void cuda_tower::finish_view() {
  if (spec_.end_norm) layers_.normalise_stream(weights_.post_norm, weights_.post_norm_bias, view_.patches());
  if (spec_.merge == engine::tower_merge::average)
    merge(at_.floats);
  else
    merge(at_.halves);
  if (spec_.reduces) reduce_rows();
  if (weights_.merger.first)
    run_merger(weights_.merger, spec_.reduces ? at_.normed : at_.halves, 0);
  else
    project_rows();
  rows_done_ += view_rows();
}

/// They lie where the normed patches were.
void cuda_tower::reduce_rows() const {
  multiply_rows(weights_.reduction, at_.halves, at_.floats, view_rows());
  kernels::state_to_half_args half;
  half.x = at_.floats;
  half.width = spec_.width;
  half.columns = view_rows();
  half.out = at_.normed;
  half.out_stride = kernels::padded_cols(spec_.width);
  ORCD_CUDA(kernels::launch_state_to_half(half, stream_));
}

void cuda_tower::project_rows() const {
  if (spec_.merge == engine::tower_merge::average) {
    ORCD_CUDA(kernels::launch_norm_to_half(
        {at_.floats, weights_.merge_norm, spec_.width, view_rows(), nullptr, static_cast<float>(spec_.eps),
         at_.halves, kernels::padded_cols(spec_.width)},
        stream_));
  }
  multiply_rows(weights_.projection, at_.halves, at_.floats, view_rows());
  store(0);
}

/// Those of a sound lie one after the other.
kernels::merge_patches_args cuda_tower::merging() const {
  kernels::merge_patches_args args;
  args.x = at_.stream;
  args.patch_at = spec_.sound ? nullptr : at_.patch_at;
  args.columns = view_.columns;
  args.side = spec_.sound ? spec_.sound->stack : spec_.pictures.merge;
  args.width = spec_.width;
  args.rows = view_rows();
  args.by_channel = spec_.reduces;
  args.average = spec_.merge == engine::tower_merge::average;
  if (!args.average) return args;
  args.scale = static_cast<float>(spec_.merge_scale);
  args.bias = weights_.std_bias;
  args.factor = weights_.std_scale;
  return args;
}

void cuda_tower::merge(float* out) const {
  kernels::merge_patches_args args = merging();
  args.out = out;
  args.out_stride = args.row_width();
  ORCD_CUDA(kernels::launch_merge_patches(args, stream_));
}

void cuda_tower::merge(__half* out) const {
  kernels::merge_patches_args args = merging();
  args.out_halves = out;
  args.out_stride = kernels::padded_cols(args.row_width());
  ORCD_CUDA(kernels::launch_merge_patches(args, stream_));
}

/// The rows that the last product has left, to their blocks.
void cuda_tower::store(std::uint32_t part) const {
  kernels::store_rows_args args;
  args.to = store_;
  args.blocks = device_blocks_;
  args.x = at_.floats;
  args.first = rows_done_;
  args.rows = view_rows();
  args.part = part;
  ORCD_CUDA(kernels::launch_store_rows(args, stream_));
}

}  // namespace orcd::gpu
