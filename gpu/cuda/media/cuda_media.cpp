#include "gpu/cuda/media/cuda_media.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/ensure.hpp"
#include "gpu/plan/media/tower_weights.hpp"
#include "gpu/plan/slice_reader.hpp"
#include "kernels/attention/page_control.hpp"

namespace orcd::gpu {
namespace {

cuda_tower_weights upload_tower(const engine::tower& t, const vram_arena& arena, std::uint64_t at,
                                const upload_options& options) {
  auto layout = lay_out_tower(t, reinterpret_cast<std::uintptr_t>(arena.at<std::byte>(at)));
  if (!layout) throw engine::accelerator_failure(layout.error().code, layout.error().message);
  for (weight_piece& piece : layout->pieces) {
    piece.offset += at;
    piece.row_scale_offset += at;
  }
  upload_pieces(layout->pieces, arena, options, {});
  return std::move(layout->weights);
}

/// Writes words that travel as kernels' parameters.
class word_writer {
 public:
  word_writer(void* to, cudaStream_t stream) : to_(static_cast<std::int32_t*>(to)), stream_(stream) {
    args_.to = to_;
  }
  void add(std::int32_t word) {
    if (args_.count == kernels::written_words_max) flush();
    args_.words[args_.count++] = word;
  }
  void flush() {
    if (args_.count > 0) ORCD_CUDA(kernels::launch_write_words(args_, stream_));
    args_.to += args_.count;
    args_.count = 0;
  }

 private:
  std::int32_t* to_;
  cudaStream_t stream_;
  kernels::write_words_args args_;
};

}  // namespace

std::uint64_t cuda_media::staging_bytes(const engine::media_room& room) {
  if (room.encoder == nullptr) return 0;
  const auto layout = lay_out_tower(*room.encoder, 0);
  return layout ? staging_for(layout->pieces).bytes() : 0;
}

cuda_media::cuda_media(const engine::model_spec& text, const engine::media_room& room,
                       const cuda_extents& extents, int device, const upload_options& upload,
                       cudaStream_t stream)
    : blocks_(room.blocks), layout_(text, room, extents), arena_(device, layout_.bytes), stream_(stream) {
  const engine::tower_spec& spec = room.encoder->spec;
  ORCD_ENSURE(spec.out_width == text.embedding && room.blocks > 0);
  ORCD_ENSURE(spec.deepstack == text.deepstack_layers);
  given_.store = {arena_.at<float>(layout_.rows), engine::media_block_rows, spec.row_width(), spec.out_width};
  given_.rows = arena_.at<kernels::given_row>(layout_.given);
  if (spec.rows_see_each_other) given_.seen = arena_.at<kernels::seen_block>(layout_.seen);
  if (spec.rows_are_grid) {
    given_.turns = arena_.at<kernels::step_turn>(layout_.turned);
    given_.axes = arena_.at<std::uint8_t>(layout_.axes);
  }
  tower_.emplace(spec, upload_tower(*room.encoder, arena_, layout_.weights, upload), layout_, arena_,
                 upload.pinned, stream);
}

void cuda_media::begin(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks) {
  const bool there =
      std::all_of(blocks.begin(), blocks.end(), [&](std::uint32_t block) { return block < blocks_; });
  ORCD_ENSURE(there && !blocks.empty());
  tower_->begin(medium, blocks, given_.store);
}

std::int32_t cuda_media::row_at(const engine::media_rows& part, std::uint32_t position) const noexcept {
  const std::uint32_t of_medium = part.first + position - part.position;
  const std::uint32_t block = of_medium / engine::media_block_rows;
  ORCD_ENSURE(block < part.blocks.size() && part.blocks[block] < blocks_);
  return static_cast<std::int32_t>(part.blocks[block] * engine::media_block_rows +
                                   of_medium % engine::media_block_rows);
}

std::uint32_t cuda_media::place(const engine::sequence_step& chunk, std::uint32_t column,
                                std::uint32_t before) const {
  word_writer rows(given_.rows + before, stream_);
  std::uint32_t count = 0;
  bool grids = false;
  for (const engine::media_rows& part : chunk.media) {
    const std::uint32_t begin = std::max(part.position, chunk.position);
    const std::uint32_t end = std::min(part.position + part.count, chunk.position + chunk.count());
    grids = grids || part.columns > 0;
    if (begin >= end) continue;
    const std::uint32_t first = column + begin - chunk.position;
    for (std::uint32_t position = begin; position < end; ++position, ++count) {
      rows.add(static_cast<std::int32_t>(first + position - begin));
      rows.add(row_at(part, position));
    }
    if (!part.see_each_other) continue;
    ORCD_ENSURE(given_.seen != nullptr && end == part.position + part.count);
    word_writer seen(given_.seen + first, stream_);
    for (std::uint32_t position = begin; position < end; ++position) {
      seen.add(static_cast<std::int32_t>(part.position));
      seen.add(static_cast<std::int32_t>(end));
    }
    seen.flush();
  }
  rows.flush();
  if (!grids) return count;
  ORCD_ENSURE(given_.turns != nullptr);
  word_writer turns(given_.turns + column, stream_);
  for (std::uint32_t i = 0; i < chunk.count(); ++i) {
    const engine::rotary_position at = engine::rotary_at(chunk, chunk.position + i);
    for (const std::uint32_t number : {at.time, at.line, at.column})
      turns.add(static_cast<std::int32_t>(number));
  }
  turns.flush();
  return count;
}

}  // namespace orcd::gpu
