// What comes to a block of dealt_matvec.cu through asynchronous copies: each warp's chunks of weights, and
// all activations.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/cluster.cuh"
#include "kernels/dealt_plan.cuh"

namespace orcd::kernels {
namespace {

/// What is to be known of a chunk that has come.
class chunk_kind {
 public:
  chunk_kind() = default;
  __device__ __forceinline__ explicit chunk_kind(std::uint32_t bits) : bits_(bits) {}
  __device__ __forceinline__ chunk_kind(std::uint32_t chunk, const packed_matrix& w)
      : bits_(chunk | min(groups_per_chunk, w.groups() - chunk * groups_per_chunk) << 16U |
              static_cast<std::uint32_t>(w.format) << 24U) {}

  [[nodiscard]] __device__ __forceinline__ std::uint32_t bits() const { return bits_; }
  /// Its first column.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t column() const {
    return (bits_ & 0xFFFFU) * chunk_cols;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t groups() const { return bits_ >> 16U & 0xFFU; }
  [[nodiscard]] __device__ __forceinline__ packed_format format() const {
    return static_cast<packed_format>(bits_ >> 24U);
  }

 private:
  std::uint32_t bits_ = 0;
};

constexpr std::uint32_t find_every = 16;  ///< of a warp's chunks; no more are on their way

/// A warp's chunks on their way through its slots of shared memory: every plan.warps-th of the block's. What
/// is known of one is found by a lane for itself, of 32 at a time, and that lane starts its copy: the warp
/// would take longer over one address than over a third of a chunk's products.
template <bool Grouped>
class warp_chunks {
 public:
  __device__ __forceinline__ warp_chunks(const tiled_matmul_args& args, const dealt_plan& plan,
                                         dealt_state& state, std::byte* slots)
      : args_(args), plan_(plan), state_(state), slots_(slots) {}

  /// Starts the first copies of a block's run.
  __device__ __forceinline__ void begin(const tile_run& run) {
    chunk_ = slot_ = threadIdx.x / 32;
    known_ = threadIdx.x % 32;
    asm volatile("" : "+r"(known_));  // or the compiler keeps the lane's number once for each format
    if (chunk_ >= plan_.warps) return;
    find(run);
    const std::uint32_t own = slot_ + known_ * plan_.warps;
    if (own < plan_.slots) {
      barrier_init(barrier(own), 1);
      barrier_init_done();
      copy(own);
    }
    __syncwarp();
  }

  /// The number in the block of the warp's next chunk.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t next() const { return chunk_; }
  [[nodiscard]] __device__ __forceinline__ chunk_kind kind() const {
    return chunk_kind(__shfl_sync(0xFFFFFFFFU, kind_.bits(), static_cast<int>(number_ % 32)));
  }
  /// Waits for it.
  [[nodiscard]] __device__ __forceinline__ const std::byte* wait() const {
    barrier_wait(barrier(slot_), round_ & 1U);
    return slots_ + slot_ * plan_.slot_bytes;
  }
  /// The warp has read it: another takes its slot.
  __device__ __forceinline__ void advance() {
    __syncwarp();
    if (known_ == number_ + plan_.ahead) copy(slot_);
    ++number_;
    chunk_ += plan_.warps;
    slot_ += plan_.warps;
    if (slot_ >= plan_.slots) {
      slot_ -= plan_.slots;
      ++round_;
    }
    if (number_ % find_every == 0 && known_ < number_) {
      known_ += 32;
      find(state_.run);
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t barrier(std::uint32_t slot) const {
    return shared_address_of(&state_.slot_barriers[slot]);
  }
  /// Of the lane's chunk, if the block has it.
  __device__ __forceinline__ void find(const tile_run& run) {
    const std::uint32_t v = threadIdx.x / 32 + known_ * plan_.warps;
    const std::uint32_t in_run = plan_.in_tile.quotient(v);
    bytes_ = 0;
    if (in_run >= run.end - run.first) return;
    std::uint32_t chunk = v - in_run * plan_.in_tile.d;
    const std::uint32_t member = chunk >= plan_.chunks ? 1 : 0;  // of a pair
    chunk -= member * plan_.chunks;
    const std::uint32_t tile = run.first + in_run;
    const std::uint32_t item = item_of<Grouped>(plan_, tile);
    const dealt_tile place = tile_of(args_.matmul, plan_, tile - item * plan_.tiles.d, member);
    const std::uint32_t m = place.matrix;
    const packed_matrix& w = args_.matmul.w[m];
    const std::uint32_t skipped = chunk * plan_.chunk_bytes[m];
    from_ = w.data + expert_of<Grouped>(args_, item) * w.expert_stride +
            static_cast<std::uint64_t>(place.tile) * plan_.tile_bytes[m] + skipped;
    bytes_ = min(plan_.chunk_bytes[m], plan_.tile_bytes[m] - skipped);
    kind_ = chunk_kind(chunk, w);
  }
  /// One lane: its chunk into a slot that is free.
  __device__ __forceinline__ void copy(std::uint32_t slot) const {
    if (bytes_ == 0) return;
    barrier_expect(barrier(slot), bytes_);
    bulk_copy(shared_address_of(slots_ + slot * plan_.slot_bytes), from_, bytes_, barrier(slot));
  }

  const tiled_matmul_args& args_;
  const dealt_plan& plan_;
  dealt_state& state_;
  std::byte* slots_;
  // The warp's place:
  std::uint32_t number_ = 0;  ///< chunks that it has read
  std::uint32_t chunk_ = 0;
  std::uint32_t slot_ = 0;
  std::uint32_t round_ = 0;
  // Of the warp's chunk that the lane knows:
  std::uint32_t known_ = 0;  ///< which one
  std::uint32_t bytes_ = 0;
  const std::byte* from_ = nullptr;
  chunk_kind kind_;
};
static_assert(slots_max / warps_min <= find_every);

/// Brings activations to `x`: the last warp, a column a lane. Blocks that share them copy every plan.share-th
/// column each, to all.
template <bool Grouped>
class column_bringer {
 public:
  __device__ __forceinline__ column_bringer(const tiled_matmul_args& args, const dealt_plan& plan, __half* x,
                                            std::uint32_t barrier)
      : args_(args), plan_(plan), x_(x), barrier_(barrier) {}

  /// Finds an item's and announces them; the last readers of what was there have synchronized with the warp.
  __device__ __forceinline__ void find(std::uint32_t item) {
    ++items_;
    if (threadIdx.x < first_bringer) return;
    const packed_matmul_args& a = args_.matmul;
    const item_columns<Grouped> columns(args_, item);
    const std::uint32_t lane = threadIdx.x - first_bringer;
    fence_shared_for_async();
    if (lane == 0) barrier_expect(barrier_, columns.count * bytes());
    __syncwarp();
    if (lane >= columns.count || (plan_.share > 1 && lane % plan_.share != cluster_rank())) return;
    from_ = a.x + static_cast<std::uint64_t>(columns[lane] / a.x_divisor) * a.x_stride;
  }
  /// Starts their copies.
  __device__ __forceinline__ void copy() {
    if (from_ == nullptr) return;
    const std::uint32_t to = shared_address_of(x_ + (threadIdx.x - first_bringer) * plan_.x_stride);
    if (plan_.share == 1)
      bulk_copy(to, from_, bytes(), barrier_);
    else
      bulk_copy_to_cluster(to, from_, bytes(), barrier_, plan_.share);
    from_ = nullptr;
  }
  /// Any thread: waits for them.
  __device__ __forceinline__ void wait() const { barrier_wait(barrier_, ~items_ & 1U); }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t bytes() const {
    return padded_cols(args_.matmul.w[0].cols) * static_cast<std::uint32_t>(sizeof(__half));
  }

  const tiled_matmul_args& args_;
  const dealt_plan& plan_;
  __half* x_;
  std::uint32_t barrier_;
  std::uint32_t items_ = 0;       ///< found
  const __half* from_ = nullptr;  ///< the lane's column
};

}  // namespace
}  // namespace orcd::kernels
