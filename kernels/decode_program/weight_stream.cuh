// How the weights of a decode program come to shared memory.
//
//  VRAM --bulk copies--> ring of worker 0 --> warp 0
//                        ring of worker 1 --> warp 1     a ring holds the next chunks of its worker,
//                        ...                             up to eight copies, in the order of use
//         lane w of the loader starts the copies of ring w
//
// A chunk is 16 rows by 256 columns of one matrix. In each phase worker w has the block's chunk
// first_chunk_of(w) and every program_warps-th after it. Its lane of the loader runs ahead through the phases
// in the worker's order and starts the next copy whenever the ring has room, no matter what the workers are
// waiting for. An mbarrier for each copy tells the worker that the bytes are there; the worker's count `read`
// tells the lane that they have been used. Nothing here changes a bit of the result.
#pragma once

#include "kernels/decode_program/decode_program.hpp"
#include "kernels/device/bulk_copy.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t stream_copies = 8;  ///< copies of one ring under way or in use, at most

/// A phase's description in shared memory, with this block's share of it.
struct phase_slot {
  decode_phase phase;
  block_share share;
};

/// Where a chunk lies in its ring and what it is: two words, so that a worker learns all of it by one read.
class stream_chunk {
 public:
  stream_chunk() = default;
  __device__ __forceinline__ stream_chunk(std::uint32_t at, std::uint32_t chunk, packed_format format,
                                          std::uint32_t groups)
      : words_{at | chunk << 16U, static_cast<std::uint32_t>(format) | groups << 8U} {}

  /// Its first byte in the ring.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t at() const { return words_.x & 0xFFFFU; }
  /// Its first column in the matrix.
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

/// What loader and workers share. `current`, `known` and `read` are polled: written by one thread each,
/// volatile.
struct stream_state {
  std::uint64_t slot_barriers[phase_slots];
  std::uint64_t barriers[program_warps][stream_copies];
  stream_chunk chunks[program_warps][stream_copies];
  std::uint32_t spans[program_warps][stream_copies];  ///< bytes of the ring that each takes; the loader's own
  std::uint32_t read[program_warps];                  ///< chunks that the worker has used, of all phases
  std::uint32_t current;                              ///< all workers have left the phases before this one
  std::uint32_t known;                                ///< the last phase whose choice of experts is known
  std::int32_t chosen[program_sequences_max * experts_used_max];
  phase_slot slots[phase_slots];
};

/// The first of the block's chunks in a phase that is this worker's. Workers that do not load the product's
/// input have the first ones: they can unpack one while the input is on its way.
__device__ __forceinline__ std::uint32_t first_chunk_of(std::uint32_t worker) {
  constexpr std::uint32_t input_loaders = row_threads / 32;
  return worker >= input_loaders ? worker - input_loaders : worker + program_warps - input_loaders;
}

/// Whether the mbarrier's phase of this parity has completed; does not wait.
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

/// One lane of the loader. A warp's lanes run in step, so what one does costs all of them: a phase is taken
/// over matrix by matrix, and the address of the next copy is computed before the ring has room for it.
class ring_loader {
 public:
  __device__ __forceinline__ ring_loader(std::uint32_t worker, std::uint32_t ring, std::uint32_t ring_bytes)
      : worker_(worker), ring_(ring), ring_bytes_(ring_bytes) {}

  /// The phase whose weights it copies.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t phase() const { return phase_; }

  /// Starts the next copy, or prepares it; false when it must wait.
  __device__ __forceinline__ bool step(stream_state& state) {
    if (!(entered_ ? copy(state) : enter(state))) return false;
    if (next_ < chunks_) {
      precompute_next(state.slots[phase_ % phase_slots]);
    } else {
      ++phase_;
      entered_ = false;
    }
    return true;
  }

 private:
  /// Takes over the phase, once its description has come and its weights are known.
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
    stride_tiles_ = phase.stride_tiles;
    stride_chunks_ = phase.stride_chunks;
    tile_ = phase.chunks.quotient(next_);
    chunk_ = next_ - tile_ * in_tile_;
    matrix_ = ~0U;
    end_ = 0;
    entered_ = true;
    return true;
  }

  /// Computes the address of the next chunk. The row tiles of the share's matrices are counted as one
  /// sequence.
  __device__ __forceinline__ void precompute_next(const phase_slot& slot) {
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

  /// Starts the copy of the next chunk if the ring has room. A chunk that does not fit before the ring's end
  /// goes to its beginning.
  __device__ __forceinline__ bool copy(stream_state& state) {
    const std::uint32_t read = read_volatile(state.read[worker_]);
#pragma unroll 1
    for (; freed_ != read; ++freed_) free_ += state.spans[worker_][freed_ % stream_copies];
    if (started_ - read == stream_copies) return false;
    if (started_ == read) {
      offset_ = 0;
      free_ = ring_bytes_;
    }
    const bool wraps = offset_ + bytes_ > ring_bytes_;
    const std::uint32_t span = bytes_ + (wraps ? ring_bytes_ - offset_ : 0);
    if (span > free_) return false;
    const std::uint32_t at = wraps ? 0 : offset_;
    const std::uint32_t slot = started_ % stream_copies;
    const std::uint32_t barrier = shared_address_of(&state.barriers[worker_][slot]);
    state.chunks[worker_][slot] = {at, chunk_, format_,
                                   min(groups_per_chunk, groups_ - chunk_ * groups_per_chunk)};
    state.spans[worker_][slot] = span;
    barrier_expect(barrier, bytes_);
    bulk_copy(ring_ + at, from_, bytes_, barrier);
    offset_ = at + bytes_;
    free_ -= span;
    ++started_;
    next_ += program_warps;
    tile_ += stride_tiles_;
    chunk_ += stride_chunks_;
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
  std::uint32_t chunks_ = 0;   ///< the block's
  std::uint32_t groups_ = 0;   ///< of a row tile
  std::uint32_t in_tile_ = 1;  ///< chunks of a row tile
  std::uint32_t expert_ = 0;
  std::uint32_t next_ = 0;  ///< the worker's next chunk: chunk chunk_ of tile tile_
  std::uint32_t tile_ = 0;
  std::uint32_t chunk_ = 0;
  std::uint32_t stride_tiles_ = 0;  ///< as decode_phase::stride_tiles
  std::uint32_t stride_chunks_ = 0;
  // Of the matrix that has that tile:
  std::uint32_t matrix_ = 0;
  const std::byte* data_ = nullptr;
  std::uint32_t end_ = 0;  ///< first tile of the share that is past this matrix
  std::uint32_t tile_bytes_ = 0;
  std::uint32_t chunk_bytes_ = 0;
  packed_format format_ = packed_format::f16;
  // Of that chunk:
  const std::byte* from_ = nullptr;
  std::uint32_t bytes_ = 0;
  // Of the ring:
  std::uint32_t started_ = 0;  ///< copies, of all phases
  std::uint32_t freed_ = 0;    ///< copies whose bytes are free again
  std::uint32_t ring_;         ///< shared-memory address
  std::uint32_t ring_bytes_;
  std::uint32_t offset_ = 0;
  std::uint32_t free_ = 0;  ///< bytes
};

/// A worker's place in its ring.
struct ring_reader {
  std::uint32_t chunks_read = 0;

  /// Waits for the next chunk.
  [[nodiscard]] __device__ __forceinline__ stream_chunk wait(const stream_state& state,
                                                             std::uint32_t worker) const {
    const std::uint32_t slot = chunks_read % stream_copies;
    barrier_wait(shared_address_of(&state.barriers[worker][slot]), chunks_read / stream_copies & 1U);
    return state.chunks[worker][slot];
  }
  /// The whole warp has used it; the loader may overwrite it.
  __device__ __forceinline__ void done(stream_state& state, std::uint32_t thread) {
    ++chunks_read;
    __syncwarp();
    if (thread % 32 == 0) write_volatile(state.read[thread / 32], chunks_read);
  }
};

}  // namespace orcd::kernels
