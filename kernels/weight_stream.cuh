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

/// What a worker needs to know of a chunk that has come, in one read.
struct alignas(16) stream_chunk {
  std::uint32_t at;    ///< byte in the ring
  std::uint32_t x;     ///< its first column
  std::uint32_t sums;  ///< its first partial sum, of the block's share
  packed_format format;
  std::uint8_t groups;
};
static_assert(sizeof(stream_chunk) == 16);

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

/// One lane of the loader. It keeps what it needs of its phase in registers: a step is to be short.
class ring_loader {
 public:
  __device__ __forceinline__ ring_loader(std::uint32_t worker, std::uint32_t ring, std::uint32_t ring_bytes)
      : worker_(worker), ring_(ring), ring_bytes_(ring_bytes) {}

  /// The phase whose copies it starts.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t phase() const { return phase_; }

  /// Starts the next copy, or moves on to the next phase; false when it must wait.
  __device__ __forceinline__ bool step(stream_state& state) {
    if (!entered_) return enter(state);
    if (next_ >= chunks_) {
      leave();
      return true;
    }
    const std::uint32_t read = read_volatile(state.read[worker_]);
#pragma unroll 1
    for (; freed_ != read; ++freed_) free_ += state.spans[worker_][freed_ % stream_copies];
    if (sequence_ - read == stream_copies) return false;
    if (sequence_ == read) {
      offset_ = 0;
      free_ = ring_bytes_;
    }
    return copy(state);
  }

 private:
  /// Row tiles of one matrix in the block's share.
  struct part {
    const std::byte* data;
    std::uint32_t end;  ///< first tile of the share that is not its own
    std::uint32_t tile_bytes;
    std::uint32_t chunk_bytes;
    packed_format format;
  };

  /// Takes over the phase, once it has come and its weights are known.
  __device__ __forceinline__ bool enter(stream_state& state) {
    if (phase_ >= read_volatile(state.current) + phase_slots) return false;
    const std::uint32_t index = phase_ % phase_slots;
    if (!barrier_test(shared_address_of(&state.slot_barriers[index]), phase_ / phase_slots & 1U))
      return false;
    const decode_phase& phase = state.slots[index].phase;
    const block_share& share = state.slots[index].share;
    chunks_ = share.chunks;
    next_ = first_chunk_of(worker_);
    if (next_ >= chunks_) {
      leave();
      return true;
    }
    if (phase.known_from > read_volatile(state.known)) return false;
    const bool of_experts = phase.matmul.experts != nullptr;
    const std::uint32_t expert = of_experts ? read_volatile(state.chosen[share.item]) : 0;
    std::uint32_t end = 0;
#pragma unroll
    for (std::uint32_t i = 0; i < 3; ++i) {
      const packed_matrix& w = phase.matmul.w[i];
      part& p = parts_[i];
      p.tile_bytes = phase.tile_bytes[i];
      p.chunk_bytes = phase.chunk_bytes[i];
      p.format = w.format;
      const auto first = static_cast<std::int64_t>(share.first_tile[i]) - end;
      p.data = w.data + expert * w.expert_stride + first * p.tile_bytes;
      end += share.tiles[i];
      p.end = end;
    }
    groups_ = phase.matmul.w[0].groups();
    in_tile_ = phase.chunks.d;
    tile_ = phase.chunks.quotient(next_);
    chunk_ = next_ - tile_ * in_tile_;
    tiles_on_ = phase.chunks.quotient(program_warps);
    chunks_on_ = program_warps - tiles_on_ * in_tile_;
    entered_ = true;
    return true;
  }
  __device__ __forceinline__ void leave() {
    ++phase_;
    entered_ = false;
  }

  /// The next chunk, if the ring has room for it; it never lies over the end.
  __device__ __forceinline__ bool copy(stream_state& state) {
    part p = parts_[0];
    if (tile_ >= parts_[0].end) p = parts_[1];
    if (tile_ >= parts_[1].end) p = parts_[2];
    const std::uint32_t skipped = chunk_ * p.chunk_bytes;
    const std::uint32_t bytes = min(p.chunk_bytes, p.tile_bytes - skipped);
    const bool wraps = offset_ + bytes > ring_bytes_;
    const std::uint32_t span = bytes + (wraps ? ring_bytes_ - offset_ : 0);
    if (span > free_) return false;
    const std::uint32_t at = wraps ? 0 : offset_;
    const std::uint32_t slot = sequence_ % stream_copies;
    const std::uint32_t barrier = shared_address_of(&state.barriers[worker_][slot]);
    state.chunks[worker_][slot] = {
        at, chunk_ * chunk_cols, next_ * tile_rows, p.format,
        static_cast<std::uint8_t>(min(groups_per_chunk, groups_ - chunk_ * groups_per_chunk))};
    state.spans[worker_][slot] = span;
    barrier_expect(barrier, bytes);
    bulk_copy(ring_ + at, p.data + static_cast<std::uint64_t>(tile_) * p.tile_bytes + skipped, bytes,
              barrier);
    offset_ = at + bytes;
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
  part parts_[3];
  std::uint32_t chunks_ = 0;   ///< of the block
  std::uint32_t groups_ = 0;   ///< of a row tile
  std::uint32_t in_tile_ = 1;  ///< chunks of a row tile
  std::uint32_t next_ = 0;     ///< the worker's next chunk, of this tile and its chunk
  std::uint32_t tile_ = 0;
  std::uint32_t chunk_ = 0;
  std::uint32_t tiles_on_ = 0;  ///< what program_warps chunks further is
  std::uint32_t chunks_on_ = 0;
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
