// The weights of a decode program on their way to shared memory. One warp of a block, the loader, starts all
// copies: each of its lanes fills the ring of one worker warp with the chunks that are that warp's own, of
// all phases in order, as soon as there is room, whatever barrier the block waits at. Worker w takes every
// program_warps-th chunk of the block's in a phase, counted from its first (first_chunk_of()). Nothing here
// changes a bit.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/decode_program.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t stream_copies = 8;  ///< a ring's copies under way or in use, at most

/// A phase in shared memory, with this block's share.
struct phase_slot {
  decode_phase phase;
  block_share share;
};

/// What a worker needs to know of a chunk that has come: two words, one read.
class stream_chunk {
 public:
  stream_chunk() = default;
  __device__ __forceinline__ stream_chunk(std::uint32_t at, std::uint32_t chunk, packed_format format,
                                          std::uint32_t groups)
      : words_{at | chunk << 16U, static_cast<std::uint32_t>(format) | groups << 8U} {}

  /// Its first byte in the ring.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t at() const { return words_.x & 0xFFFFU; }
  /// Its first column.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t column() const {
    return (words_.x >> 16U) * chunk_cols;
  }
  [[nodiscard]] __device__ __forceinline__ packed_format format() const {
    return static_cast<packed_format>(words_.y & 0xFFU);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t groups() const { return words_.y >> 8U; }

 private:
  uint2 words_;
};
static_assert(stream_bytes(0) <= 0xFFFF);

/// What loader and workers share.
struct stream_state {
  std::uint64_t slot_barriers[phase_slots];
  std::uint64_t barriers[program_warps][stream_copies];
  stream_chunk chunks[program_warps][stream_copies];
  std::uint32_t spans[program_warps][stream_copies];  ///< bytes of the ring that they take; the loader's own
  std::uint32_t read[program_warps];                  ///< chunks that the worker is done with
  std::uint32_t current;                              ///< all workers have left the phases before it
  std::uint32_t known;                                ///< the phase whose choice of experts is known
  std::int32_t chosen[program_columns_max * experts_used_max];
  phase_slot slots[phase_slots];
};

/// The first chunk of a phase that is this worker's; every program_warps-th after it is too. Workers that
/// bring no input come first.
__device__ __forceinline__ std::uint32_t first_chunk_of(std::uint32_t worker) {
  constexpr std::uint32_t bring = row_threads / 32;
  return worker >= bring ? worker - bring : worker + program_warps - bring;
}

/// Whether this parity's round has completed.
__device__ __forceinline__ bool barrier_test(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

template <class T>
__device__ __forceinline__ T read_volatile(const T& value) {
  return *static_cast<const volatile T*>(&value);
}

template <class T>
__device__ __forceinline__ void write_volatile(T& value, T to) {
  *static_cast<volatile T*>(&value) = to;
}

/// One lane of the loader. All lanes wait for what one does, so a phase is taken over matrix by matrix, and
/// what is copied next is found before the ring has room for it.
class ring_loader {
 public:
  __device__ __forceinline__ ring_loader(std::uint32_t worker, std::uint32_t ring, std::uint32_t ring_bytes)
      : worker_(worker), ring_(ring), ring_bytes_(ring_bytes) {}

  /// The phase whose copies it starts.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t phase() const { return phase_; }

  /// Starts the next copy, or comes closer to it; false when it must wait.
  __device__ __forceinline__ bool step(stream_state& state) {
    if (!(entered_ ? copy(state) : enter(state))) return false;
    if (next_ < chunks_) {
      find_next(state.slots[phase_ % phase_slots]);
    } else {
      ++phase_;
      entered_ = false;
    }
    return true;
  }

 private:
  /// Takes over the phase, once it has come and its weights are known.
  __device__ __forceinline__ bool enter(const stream_state& state) {
    if (phase_ >= read_volatile(state.current) + phase_slots) return false;
    const std::uint32_t index = phase_ % phase_slots;
    if (!barrier_test(shared_address_of(&state.slot_barriers[index]), phase_ / phase_slots & 1U))
      return false;
    const decode_phase& phase = state.slots[index].phase;
    const block_share& share = state.slots[index].share;
    chunks_ = share.chunks;
    next_ = first_chunk_of(worker_);
    if (next_ >= chunks_) return true;
    if (phase.known_from > read_volatile(state.known)) return false;
    expert_ = phase.known_from > 0 ? read_volatile(state.chosen[share.item]) : 0;
    groups_ = phase.groups;
    in_tile_ = phase.chunks.d;
    tiles_on_ = phase.tiles_on;
    chunks_on_ = phase.chunks_on;
    tile_ = phase.chunks.quotient(next_);
    chunk_ = next_ - tile_ * in_tile_;
    matrix_ = ~0U;
    end_ = 0;
    entered_ = true;
    return true;
  }

  /// The next chunk in memory; the row tiles of the share's matrices follow each other.
  __device__ __forceinline__ void find_next(const phase_slot& slot) {
#pragma unroll 1
    while (tile_ >= end_) {
      const packed_matrix& w = slot.phase.matmul.w[++matrix_];
      tile_bytes_ = slot.phase.tile_bytes[matrix_];
      chunk_bytes_ = slot.phase.chunk_bytes[matrix_];
      format_ = w.format;
      const auto first = static_cast<std::int64_t>(slot.share.first_tile[matrix_]) - end_;
      data_ = w.data + expert_ * w.expert_stride + first * tile_bytes_;
      end_ += slot.share.tiles[matrix_];
    }
    const std::uint32_t skipped = chunk_ * chunk_bytes_;
    from_ = data_ + static_cast<std::uint64_t>(tile_) * tile_bytes_ + skipped;
    bytes_ = min(chunk_bytes_, tile_bytes_ - skipped);
  }

  /// The next chunk, if the ring has room for it; it never lies over the end.
  __device__ __forceinline__ bool copy(stream_state& state) {
    const std::uint32_t read = read_volatile(state.read[worker_]);
#pragma unroll 1
    for (; freed_ != read; ++freed_) free_ += state.spans[worker_][freed_ % stream_copies];
    if (sequence_ - read == stream_copies) return false;
    if (sequence_ == read) {
      offset_ = 0;
      free_ = ring_bytes_;
    }
    const bool wraps = offset_ + bytes_ > ring_bytes_;
    const std::uint32_t span = bytes_ + (wraps ? ring_bytes_ - offset_ : 0);
    if (span > free_) return false;
    const std::uint32_t at = wraps ? 0 : offset_;
    const std::uint32_t slot = sequence_ % stream_copies;
    const std::uint32_t barrier = shared_address_of(&state.barriers[worker_][slot]);
    state.chunks[worker_][slot] = {at, chunk_, format_,
                                   min(groups_per_chunk, groups_ - chunk_ * groups_per_chunk)};
    state.spans[worker_][slot] = span;
    barrier_expect(barrier, bytes_);
    bulk_copy(ring_ + at, from_, bytes_, barrier);
    offset_ = at + bytes_;
    free_ -= span;
    ++sequence_;
    next_ += program_warps;
    tile_ += tiles_on_;
    chunk_ += chunks_on_;
    if (chunk_ >= in_tile_) {
      chunk_ -= in_tile_;
      ++tile_;
    }
    return true;
  }

  std::uint32_t worker_;
  std::uint32_t phase_ = 0;
  bool entered_ = false;
  // Of the phase:
  std::uint32_t chunks_ = 0;   ///< of the block
  std::uint32_t groups_ = 0;   ///< of a row tile
  std::uint32_t in_tile_ = 1;  ///< chunks of a row tile
  std::uint32_t expert_ = 0;
  std::uint32_t next_ = 0;  ///< the worker's next chunk, of this tile and its chunk
  std::uint32_t tile_ = 0;
  std::uint32_t chunk_ = 0;
  std::uint32_t tiles_on_ = 0;  ///< what program_warps chunks further is
  std::uint32_t chunks_on_ = 0;
  // Of that tile's matrix:
  std::uint32_t matrix_ = 0;
  const std::byte* data_ = nullptr;
  std::uint32_t end_ = 0;  ///< first tile of the share that is not its own
  std::uint32_t tile_bytes_ = 0;
  std::uint32_t chunk_bytes_ = 0;
  packed_format format_ = packed_format::f16;
  // Of that chunk:
  const std::byte* from_ = nullptr;
  std::uint32_t bytes_ = 0;
  // Of the ring:
  std::uint32_t sequence_ = 0;  ///< copies started
  std::uint32_t freed_ = 0;     ///< copies whose room is free again
  std::uint32_t ring_;          ///< address
  std::uint32_t ring_bytes_;
  std::uint32_t offset_ = 0;
  std::uint32_t free_ = 0;  ///< bytes
};

/// A worker's place in the sequence of its chunks.
struct ring_reader {
  std::uint32_t sequence = 0;  ///< chunks read

  /// The next chunk, once it has come.
  [[nodiscard]] __device__ __forceinline__ stream_chunk wait(const stream_state& state,
                                                             std::uint32_t worker) const {
    const std::uint32_t slot = sequence % stream_copies;
    barrier_wait(shared_address_of(&state.barriers[worker][slot]), sequence / stream_copies & 1U);
    return state.chunks[worker][slot];
  }
  /// The whole warp has read it.
  __device__ __forceinline__ void done(stream_state& state, std::uint32_t thread) {
    ++sequence;
    __syncwarp();
    if (thread % 32 == 0) write_volatile(state.read[thread / 32], sequence);
  }
};

}  // namespace orcd::kernels
