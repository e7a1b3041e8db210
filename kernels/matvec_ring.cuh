// What the latency kernel reads: its plan, and each warp's ring of weights in shared memory, filled by bulk
// copies ahead of use.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/packed_matmul.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t matvec_warps_max = 16;
inline constexpr std::uint32_t slots_max = 16;

/// Bytes of the parts of a matrix that a run of weights is made of.
struct run_bytes {
  std::uint32_t chunk;  ///< 256 columns of a row tile
  std::uint32_t piece;  ///< what one copy brings; a chunk is one, two or four
  std::uint64_t tile;   ///< a row tile
};

/// What a launch decides. Nothing in it changes a bit.
struct matvec_plan {
  std::uint32_t tiles;    ///< row tiles of all matrices; gate and up tiles of the same rows count as one
  std::uint32_t members;  ///< row tiles in one of them: 2 for gate and up
  std::uint32_t warps;    ///< of a block
  bool own_tiles;         ///< each warp folds tiles of its own; otherwise a block's warps share the chunks
  std::uint32_t slots;    ///< of a warp's ring
  std::uint32_t slot_bytes;
  std::uint32_t x_stride;                   ///< halfs
  std::uint32_t x_at, partial_at, ring_at;  ///< offsets in shared memory
  run_bytes bytes[3];
};

/// Where in the stacked matrices a row tile lies.
struct tile_place {
  std::uint32_t matrix;
  std::uint32_t tile;
  std::uint32_t out_row;  ///< first row of the matrix in the stacked output
};

__device__ __forceinline__ tile_place place_of(const packed_matmul_args& a, const matvec_plan& plan,
                                               std::uint32_t tile, std::uint32_t member) {
  if (plan.members == 2) return {member, tile, 0};
  tile_place p{0, tile, 0};
  while (p.matrix + 1 < a.matrices && p.tile >= a.w[p.matrix].row_tiles()) {
    p.tile -= a.w[p.matrix].row_tiles();
    p.out_row += a.w[p.matrix].rows;
    ++p.matrix;
  }
  return p;
}

/// A range of a launch's chunks: chunk c of member m of tile i is number (i * members + m) * chunks + c.
struct chunk_range {
  std::uint32_t first;
  std::uint32_t last;
};

/// A warp's weights in the order of their use, copied ahead into its ring.
class chunk_ring {
 public:
  __device__ __forceinline__ chunk_ring(const packed_matmul_args& a, const matvec_plan& plan,
                                        chunk_range range, std::uint32_t barriers, std::byte* ring)
      : a_(a), plan_(plan), next_(range.first), last_(range.last), barriers_(barriers), ring_(ring) {
    if (threadIdx.x % 32 == 0) {
      for (std::uint32_t i = 0; i < plan.slots; ++i) barrier_init(barriers_ + 8 * i, 1);
      barrier_init_done();
    }
    __syncwarp();
  }

  /// Starts the first copies, of weights of this expert.
  __device__ __forceinline__ void fill(std::uint32_t expert) {
    expert_ = expert;
    for (slot_ = 0; slot_ < plan_.slots; ++slot_) issue();
    slot_ = 0;
  }

  /// Waits for the oldest piece and says where it lies.
  __device__ __forceinline__ const std::byte* front() const {
    barrier_wait(barriers_ + 8 * slot_, phase_);
    return ring_ + slot_ * plan_.slot_bytes;
  }

  /// Copies another piece over the oldest, which every lane has read.
  __device__ __forceinline__ void pop() {
    __syncwarp();
    issue();
    if (++slot_ == plan_.slots) {
      slot_ = 0;
      phase_ ^= 1;
    }
  }

 private:
  __device__ __forceinline__ void issue() {
    if (run_left_ == 0) {
      if (next_ >= last_) return;
      start_run();
    }
    const std::uint32_t size = min(piece_, run_left_);
    if (threadIdx.x % 32 == 0) {
      barrier_expect(barriers_ + 8 * slot_, size);
      bulk_copy(shared_address_of(ring_ + slot_ * plan_.slot_bytes), from_, size, barriers_ + 8 * slot_);
    }
    from_ += size;
    run_left_ -= size;
  }

  /// The warp's chunks of one row tile lie one after the other.
  __device__ __forceinline__ void start_run() {
    const std::uint32_t chunks = a_.w[0].chunks();
    const std::uint32_t row = next_ / chunks;
    const std::uint32_t end = min(last_, (row + 1) * chunks);
    const tile_place place = place_of(a_, plan_, row / plan_.members, row % plan_.members);
    const packed_matrix& w = a_.w[place.matrix];
    const run_bytes& bytes = plan_.bytes[place.matrix];
    const std::uint32_t skipped = (next_ - row * chunks) * bytes.chunk;
    from_ = w.data + expert_ * w.expert_stride + place.tile * bytes.tile + skipped;
    run_left_ = min((end - row * chunks) * bytes.chunk, static_cast<std::uint32_t>(bytes.tile)) - skipped;
    piece_ = bytes.piece;
    next_ = end;
  }

  const packed_matmul_args& a_;
  const matvec_plan& plan_;
  std::uint32_t next_;  ///< first chunk after the current run
  std::uint32_t last_;
  std::uint32_t barriers_;
  std::byte* ring_;
  std::uint32_t expert_ = 0;
  const std::byte* from_ = nullptr;
  std::uint32_t run_left_ = 0;
  std::uint32_t piece_ = 0;
  std::uint32_t slot_ = 0;
  std::uint32_t phase_ = 0;
};

}  // namespace orcd::kernels
