#include "gpu/plan/slice_reader.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

#include "engine/accelerator.hpp"
#include "engine/base/ensure.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/recode.hpp"

namespace orcd::gpu {
namespace {

constexpr std::uint64_t usual_slot_bytes = std::uint64_t{4} << 20;
constexpr std::uint64_t slots_max = 16;
constexpr unsigned threads_max = 64;

/// Starts to read a whole slice from disk: a cold file is then read in long runs, by as many slices as there
/// are threads. Advice only, so that its failure does not matter.
void fetch_pages(const std::byte* from, std::uint64_t bytes) noexcept {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(from) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(from) + bytes;
  static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED));
}

void copy_slice(const weight_slice& slice, std::byte* to) {
  const weight_piece& piece = *slice.piece;
  const std::byte* from = piece.raw + slice.first_row * piece.row_bytes;
  fetch_pages(from, slice.rows * piece.row_bytes);
  if (piece.sent == piece.type && (piece.packed || piece.factor == 1.0F)) {
    std::memcpy(to, from, slice.bytes());
    return;
  }
  if (piece.packed || piece.codes) {
    const auto recode = piece.codes                            ? kernels::host::recode_as_i2_s
                        : piece.sent == engine::ggml_type::f16 ? kernels::host::recode_as_f16
                                                               : kernels::host::recode_as_q4_0;
    for (std::uint32_t r = 0; r < slice.rows; ++r)
      recode(piece.type, from + r * piece.row_bytes, piece.cols, to + r * piece.staged_row_bytes());
    return;
  }
  const kernels::weight_matrix matrix{
      .data = from, .type = piece.type, .rows = slice.rows, .cols = piece.cols, .factor = piece.factor};
  for (std::uint32_t r = 0; r < slice.rows; ++r) {
    kernels::host::dequantize_row(matrix, r, reinterpret_cast<float*>(to + r * piece.staged_row_bytes()));
  }
}

}  // namespace

staging_shape staging_for(std::span<const weight_piece> pieces) {
  std::uint64_t widest = 0;
  std::uint64_t largest = 0;
  std::uint64_t total = 0;
  for (const weight_piece& piece : pieces) {
    widest = std::max(widest, kernels::tile_rows * piece.staged_row_bytes());
    largest = std::max(largest, piece.rows * piece.staged_row_bytes());
    total += piece.rows * piece.staged_row_bytes();
  }
  staging_shape shape;
  shape.slot_bytes = std::max<std::uint64_t>(256, std::max(widest, std::min(largest, usual_slot_bytes)));
  shape.slot_bytes = (shape.slot_bytes + 255) / 256 * 256;
  shape.slots = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(total / shape.slot_bytes, 2, slots_max));
  return shape;
}

std::vector<weight_slice> cut_slices(std::span<const weight_piece> pieces, std::uint64_t slot_bytes) {
  std::vector<weight_slice> slices;
  for (const weight_piece& piece : pieces) {
    const std::uint64_t row = piece.staged_row_bytes();
    const std::uint64_t rows_max = slot_bytes / row / kernels::tile_rows * kernels::tile_rows;
    ORCD_ENSURE(piece.rows > 0 && rows_max > 0);
    const std::uint64_t parts = (piece.rows + rows_max - 1) / rows_max;
    const std::uint64_t tiles = (piece.rows + kernels::tile_rows - 1) / kernels::tile_rows;
    const std::uint64_t step = (tiles + parts - 1) / parts * kernels::tile_rows;
    for (std::uint64_t first = 0; first < piece.rows; first += step) {
      slices.push_back({.piece = &piece,
                        .first_row = static_cast<std::uint32_t>(first),
                        .rows = static_cast<std::uint32_t>(std::min(step, piece.rows - first))});
    }
  }
  return slices;
}

slice_reader::slice_reader(std::span<const weight_slice> slices, std::vector<std::byte*> slots,
                           unsigned threads)
    : slices_(slices), slots_(std::move(slots)) {
  ORCD_ENSURE(!slots_.empty());
  filled_.reserve(slots_.size());
  for (std::size_t i = slots_.size(); i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  const unsigned wanted = std::clamp(threads, 1U, threads_max);
  try {
    threads_.reserve(wanted);
    for (unsigned i = 0; i < wanted; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& failure) {
    // A process at its limit of threads loads with fewer.
    if (threads_.empty()) {
      throw engine::accelerator_failure(engine::errc::internal,
                                        std::string("starting a thread to read weights: ") + failure.what());
    }
  }
}

slice_reader::~slice_reader() {
  stop();
}

void slice_reader::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  slot_freed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void slice_reader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    slot_freed_.wait(lock, [this] { return stopping_ || next_ == slices_.size() || !free_.empty(); });
    if (stopping_ || next_ == slices_.size()) return;
    const filled_slot work{.slot = free_.back(), .slice = next_++};
    free_.pop_back();
    lock.unlock();
    copy_slice(slices_[work.slice], slots_[work.slot]);
    lock.lock();
    filled_.push_back(work);
    slot_filled_.notify_one();
  }
}

std::optional<slice_reader::filled_slot> slice_reader::take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) slot_filled_.wait(lock, [this] { return !filled_.empty(); });
  if (filled_.empty()) return std::nullopt;
  const filled_slot first = filled_.front();
  filled_.erase(filled_.begin());
  return first;
}

void slice_reader::give_back(std::uint32_t slot) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }
  slot_freed_.notify_one();
}

}  // namespace orcd::gpu
