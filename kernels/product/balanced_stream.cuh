// What balanced_matvec.cu loads by asynchronous copies: each warp's chunks of weights, and the activations.
#pragma once

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/cluster.cuh"
#include "kernels/product/balanced_plan.cuh"

namespace orcd::kernels {
namespace {

/// What a warp must know of a chunk to multiply it, in one word.
class chunk_kind {
 public:
  chunk_kind() = default;
  __device__ __forceinline__ explicit chunk_kind(std::uint32_t bits) : bits_(bits) {}
  __device__ __forceinline__ chunk_kind(std::uint32_t chunk, const packed_matrix& w)
      : bits_(chunk | min(groups_per_chunk, w.groups() - chunk * groups_per_chunk) << 16U |
              static_cast<std::uint32_t>(w.format) << 24U) {}

  [[nodiscard]] __device__ __forceinline__ std::uint32_t bits() const { return bits_; }
  /// Its first column in the matrix.
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

constexpr std::uint32_t precompute_every = 16;  ///< chunks of a warp; no more are under way at a time

/// A warp's chunks on their way through its slots of shared memory: every plan.warps-th chunk of the block.
///
/// Addresses are computed ahead, 32 chunks at a time: each lane computes one chunk's for itself, and later
/// starts that chunk's copy. If the warp computed one address at a time, it would take a third of the time of
/// a chunk's products.
template <bool Grouped>
class warp_chunks {
 public:
  __device__ __forceinline__ warp_chunks(const tiled_matmul_args& args, const balanced_plan& plan,
                                         balanced_state& state, std::byte* slots)
      : args_(args), plan_(plan), state_(state), slots_(slots) {}

  /// Starts the first copies of a block's run.
  __device__ __forceinline__ void begin(const tile_run& run) {
    chunk_ = slot_ = threadIdx.x / 32;
    known_ = threadIdx.x % 32;
    asm volatile("" : "+r"(known_));  // or the compiler keeps the lane's number once for each format
    if (chunk_ >= plan_.warps) return;
    precompute(run);
    const std::uint32_t own = slot_ + known_ * plan_.warps;
    if (own < plan_.slots) {
      barrier_init(barrier(own), 1);
      barrier_init_done();
      copy(own);
    }
    __syncwarp();
  }

  /// The warp's next chunk, counted in the block.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t next() const { return chunk_; }
  [[nodiscard]] __device__ __forceinline__ chunk_kind kind() const {
    return chunk_kind(__shfl_sync(0xFFFFFFFFU, kind_.bits(), static_cast<int>(number_ % 32)));
  }
  /// Waits until it has arrived.
  [[nodiscard]] __device__ __forceinline__ const std::byte* wait() const {
    barrier_wait(barrier(slot_), round_ & 1U);
    return slots_ + slot_ * plan_.slot_bytes;
  }
  /// The warp has used the chunk: starts the copy of another into its slot.
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
    if (number_ % precompute_every == 0 && known_ < number_) {
      known_ += 32;
      precompute(state_.run);
    }
  }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t barrier(std::uint32_t slot) const {
    return shared_address_of(&state_.slot_barriers[slot]);
  }
  /// Computes the address and size of this lane's chunk; no bytes if the block has no such chunk.
  __device__ __forceinline__ void precompute(const tile_run& run) {
    const std::uint32_t v = threadIdx.x / 32 + known_ * plan_.warps;
    const std::uint32_t in_run = plan_.in_tile.quotient(v);
    bytes_ = 0;
    if (in_run >= run.end - run.first) return;
    std::uint32_t chunk = v - in_run * plan_.in_tile.d;
    const std::uint32_t member = chunk >= plan_.chunks ? 1 : 0;  // of a gate and up pair
    chunk -= member * plan_.chunks;
    const std::uint32_t tile = run.first + in_run;
    const std::uint32_t item = item_of<Grouped>(plan_, tile);
    const balanced_tile place = tile_of(args_.matmul, plan_, tile - item * plan_.tiles.d, member);
    const std::uint32_t m = place.matrix;
    const packed_matrix& w = args_.matmul.w[m];
    const std::uint32_t skipped = chunk * plan_.chunk_bytes[m];
    from_ = w.data + expert_of<Grouped>(args_, item) * w.expert_stride +
            static_cast<std::uint64_t>(place.tile) * plan_.tile_bytes[m] + skipped;
    bytes_ = min(plan_.chunk_bytes[m], plan_.tile_bytes[m] - skipped);
    kind_ = chunk_kind(chunk, w);
  }
  /// One lane: starts to copy its chunk into a free slot.
  __device__ __forceinline__ void copy(std::uint32_t slot) const {
    if (bytes_ == 0) return;
    barrier_expect(barrier(slot), bytes_);
    bulk_copy(shared_address_of(slots_ + slot * plan_.slot_bytes), from_, bytes_, barrier(slot));
  }

  const tiled_matmul_args& args_;
  const balanced_plan& plan_;
  balanced_state& state_;
  std::byte* slots_;
  // The warp's place:
  std::uint32_t number_ = 0;  ///< chunks that it has used
  std::uint32_t chunk_ = 0;
  std::uint32_t slot_ = 0;
  std::uint32_t round_ = 0;
  // The chunk that this lane knows:
  std::uint32_t known_ = 0;  ///< its number among the warp's
  std::uint32_t bytes_ = 0;
  const std::byte* from_ = nullptr;
  chunk_kind kind_;
};
static_assert(slots_max / warps_min <= precompute_every);

/// Loads an item's activations to `x`: the last warp of the block, a column a lane. In a cluster each block
/// loads every plan.cluster_blocks-th column and sends it to all.
template <bool Grouped>
class column_loader {
 public:
  __device__ __forceinline__ column_loader(const tiled_matmul_args& args, const balanced_plan& plan,
                                           __half* x, std::uint32_t barrier)
      : args_(args), plan_(plan), x_(x), barrier_(barrier) {}

  /// Announces an item's bytes to the barrier and computes the addresses. The readers of the item before must
  /// have synchronized with this warp.
  __device__ __forceinline__ void announce(std::uint32_t item) {
    ++items_;
    if (threadIdx.x < first_loader) return;
    const packed_matmul_args& a = args_.matmul;
    const item_columns<Grouped> columns(args_, item);
    const std::uint32_t lane = threadIdx.x - first_loader;
    fence_shared_for_async();
    if (lane == 0) barrier_expect(barrier_, columns.count * bytes());
    __syncwarp();
    if (lane >= columns.count || (plan_.cluster_blocks > 1 && lane % plan_.cluster_blocks != cluster_rank()))
      return;
    from_ = a.x + static_cast<std::uint64_t>(columns[lane] / a.x_divisor) * a.x_stride;
  }
  /// Starts the copies.
  __device__ __forceinline__ void copy() {
    if (from_ == nullptr) return;
    const std::uint32_t to = shared_address_of(x_ + (threadIdx.x - first_loader) * plan_.x_stride);
    if (plan_.cluster_blocks == 1)
      bulk_copy(to, from_, bytes(), barrier_);
    else
      bulk_copy_to_cluster(to, from_, bytes(), barrier_, plan_.cluster_blocks);
    from_ = nullptr;
  }
  /// Any thread: waits for them.
  __device__ __forceinline__ void wait() const { barrier_wait(barrier_, ~items_ & 1U); }

 private:
  [[nodiscard]] __device__ __forceinline__ std::uint32_t bytes() const {
    return padded_cols(args_.matmul.w[0].cols) * static_cast<std::uint32_t>(sizeof(__half));
  }

  const tiled_matmul_args& args_;
  const balanced_plan& plan_;
  __half* x_;
  std::uint32_t barrier_;
  std::uint32_t items_ = 0;       ///< announced so far
  const __half* from_ = nullptr;  ///< the lane's column
};

}  // namespace
}  // namespace orcd::kernels
