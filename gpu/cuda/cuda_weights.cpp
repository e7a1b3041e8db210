#include "gpu/cuda/cuda_weights.hpp"

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "engine/base/ensure.hpp"
#include "engine/base/hexadecimal.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/memory/arena_hash.hpp"
#include "gpu/plan/slice_reader.hpp"
#include "kernels/device/tile_hash.hpp"
#include "kernels/product/repack.hpp"

namespace orcd::gpu {
namespace {

/// A hash as the device has it: words, of which the first byte is the highest.
std::string hexadecimal(std::span<const std::uint32_t> words) {
  std::vector<std::uint8_t> bytes;
  for (const std::uint32_t word : words) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  return engine::hexadecimal(bytes);
}

/// The ring on both sides. A slot's copy and repack run on one stream, in order; two streams let one
/// slot be copied while another is repacked.
class uploader {
 public:
  uploader(std::span<const weight_piece> pieces, const vram_arena& arena, const upload_options& options);
  ~uploader();
  uploader(const uploader&) = delete;
  uploader& operator=(const uploader&) = delete;

  void run(const std::function<void(unsigned)>& progress);

 private:
  [[nodiscard]] std::byte* host_slot(std::uint32_t slot) const noexcept {
    return (pageable_ ? pageable_.get() : pinned_.data()) + slot * shape_.slot_bytes;
  }
  [[nodiscard]] const owned_stream& stream_of(std::uint32_t slot) const noexcept {
    return streams_[slot % streams_.size()];
  }
  [[nodiscard]] std::vector<std::byte*> host_slots() const;
  void send(const slice_reader::filled_slot& filled);
  void repack(const weight_slice& slice, const std::byte* raw, const owned_stream& on) const;

  const vram_arena& arena_;
  staging_shape shape_;
  std::vector<weight_slice> slices_;
  pinned_buffer pinned_;
  std::unique_ptr<std::byte[]> pageable_;
  device_buffer raw_;
  std::array<owned_stream, 2> streams_;
  std::vector<event> done_;  ///< of each slot: its last copy and repack
  std::unique_ptr<slice_reader> reader_;
};

uploader::uploader(std::span<const weight_piece> pieces, const vram_arena& arena,
                   const upload_options& options)
    : arena_(arena),
      shape_(staging_for(pieces)),
      slices_(cut_slices(pieces, shape_.slot_bytes)),
      raw_(shape_.bytes()) {
  if (options.pinned) {
    pinned_ = pinned_buffer(shape_.bytes());
  } else {
    pageable_.reset(new std::byte[shape_.bytes()]);
  }
  for (owned_stream& s : streams_) s = make_stream();
  for (std::uint32_t i = 0; i < shape_.slots; ++i) done_.push_back(make_event());
  reader_ = std::make_unique<slice_reader>(slices_, host_slots(), options.reader_threads);
}

uploader::~uploader() {
  // After a failure copies may still read the slots that are about to be freed.
  for (const owned_stream& s : streams_) {
    if (s.get() != nullptr) static_cast<void>(cudaStreamSynchronize(s.get()));
  }
}

std::vector<std::byte*> uploader::host_slots() const {
  std::vector<std::byte*> slots;
  for (std::uint32_t i = 0; i < shape_.slots; ++i) slots.push_back(host_slot(i));
  return slots;
}

void uploader::repack(const weight_slice& slice, const std::byte* raw, const owned_stream& on) const {
  const weight_piece& piece = *slice.piece;
  const std::uint64_t before = kernels::packed_bytes(piece.format, slice.first_row, piece.cols);
  kernels::repack_args args;
  args.raw = raw;
  args.raw_row_bytes = piece.staged_row_bytes();
  args.factor = piece.factor;
  args.rows = slice.rows;
  args.cols = piece.cols;
  args.format = piece.format;
  args.packed = arena_.at<std::byte>(piece.offset + before);
  if (kernels::packed_row_scales(piece.format, piece.rows) > 0) {
    args.row_scale = arena_.at<float>(piece.row_scale_offset) + slice.first_row;
  }
  ORCD_CUDA(kernels::launch_repack(args, on.get()));
}

void uploader::send(const slice_reader::filled_slot& filled) {
  const weight_slice& slice = slices_[filled.slice];
  const weight_piece& piece = *slice.piece;
  const owned_stream& on = stream_of(filled.slot);
  std::byte* const to = piece.packed
                            ? raw_.data() + filled.slot * shape_.slot_bytes
                            : arena_.at<std::byte>(piece.offset + slice.first_row * piece.staged_row_bytes());
  ORCD_CUDA(cudaMemcpyAsync(to, host_slot(filled.slot), slice.bytes(), cudaMemcpyHostToDevice, on.get()));
  if (piece.packed) repack(slice, to, on);
  ORCD_CUDA(cudaEventRecord(done_[filled.slot].get(), on.get()));
}

void uploader::run(const std::function<void(unsigned)>& progress) {
  std::uint64_t total = 0;
  for (const weight_slice& slice : slices_) total += slice.bytes();
  std::vector<std::uint32_t> in_flight;  // oldest first
  std::uint64_t sent = 0;
  unsigned told = 0;
  for (std::size_t taken = 0; taken < slices_.size();) {
    if (const auto filled = reader_->take(in_flight.empty())) {
      send(*filled);
      in_flight.push_back(filled->slot);
      sent += slices_[filled->slice].bytes();
      ++taken;
      const auto percent = static_cast<unsigned>(sent * 100 / total);
      if (progress && percent > told && percent < 100) progress(told = percent);
    } else {
      ORCD_CUDA(cudaEventSynchronize(done_[in_flight.front()].get()));
      reader_->give_back(in_flight.front());
      in_flight.erase(in_flight.begin());
    }
  }
  for (const owned_stream& s : streams_) ORCD_CUDA(cudaStreamSynchronize(s.get()));
  if (progress) progress(100);
}

weight_layout layout_in(const engine::model& m, const vram_arena& arena) {
  auto layout = lay_out_weights(m, reinterpret_cast<std::uintptr_t>(arena.at<std::byte>(0)));
  if (!layout) throw engine::accelerator_failure(layout.error().code, layout.error().message);
  ORCD_ENSURE(layout->bytes <= arena.bytes());
  return std::move(*layout);
}

}  // namespace

engine::result<std::uint64_t> plan_cuda_weights(const engine::model& m) {
  const auto layout = lay_out_weights(m, 0);
  if (!layout) return layout.error();
  return layout->bytes;
}

std::uint64_t upload_staging_bytes(const engine::model& m) {
  const auto layout = lay_out_weights(m, 0);
  return layout ? staging_for(layout->pieces).bytes() : 0;
}

cuda_weights upload_cuda_weights(const engine::model& m, const vram_arena& arena,
                                 const upload_options& options,
                                 const std::function<void(unsigned percent)>& progress) {
  auto layout = layout_in(m, arena);
  upload_pieces(layout.pieces, arena, options, progress);
  return std::move(layout.weights);
}

void upload_pieces(std::span<const weight_piece> pieces, const vram_arena& arena,
                   const upload_options& options, const std::function<void(unsigned percent)>& progress) {
  uploader(pieces, arena, options).run(progress);
}

cuda_weights place_cuda_weights(const engine::model& m, const vram_arena& arena) {
  return layout_in(m, arena).weights;
}

std::string weights_layout_hash(const engine::model& m) {
  const auto layout = lay_out_weights(m, 0);
  return layout ? layout->hash() : std::string();
}

std::string device_content_hash(const vram_arena& arena, std::uint64_t bytes) {
  constexpr std::uint32_t words = kernels::tile_hash_words;
  const std::uint64_t tiles = (bytes + hash_tile_bytes - 1) / hash_tile_bytes;
  std::vector<std::uint32_t> hashes(tiles * words);
  const device_buffer on_device(hashes.size() * sizeof(std::uint32_t));
  auto* const out = reinterpret_cast<std::uint32_t*>(on_device.data());
  const owned_stream stream = make_stream();
  ORCD_CUDA(kernels::launch_tile_hash(arena.at<std::byte>(0), bytes, hash_tile_bytes, out, stream.get()));
  ORCD_CUDA(cudaMemcpyAsync(hashes.data(), out, on_device.size(), cudaMemcpyDeviceToHost, stream.get()));
  ORCD_CUDA(cudaStreamSynchronize(stream.get()));
  std::vector<std::string> tile_hashes;
  for (std::uint64_t tile = 0; tile < tiles; ++tile) {
    tile_hashes.push_back(hexadecimal(std::span(hashes).subspan(tile * words, words)));
  }
  return combine_tile_hashes(tile_hashes);
}

}  // namespace orcd::gpu
