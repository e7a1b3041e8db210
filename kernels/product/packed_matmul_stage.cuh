// The stagers of the throughput product: warpgroups that bring activations into shared memory, in the order
// of k in which the weights are packed (packed_matrix.hpp), and start the copies of weights.
#pragma once

#include "kernels/device/device_math.cuh"
#include "kernels/product/packed_matmul_weights.cuh"

namespace orcd::kernels {

/// What one stager thread loads of a stage: `passes` times 16 columns of k (a quarter of a group) of one
/// column of the matrix. Neighbouring threads have the quarters of a group, the next four the next column.
/// In packed order it copies the pieces of 16 bytes with its quarter's number and four more. Columns past an
/// item's last are read like its first; their results are never stored.
template <packed_format F, std::uint32_t N, k_sharing K>
class activation_reader {
  using plan = block_plan<F, N, K>;

 public:
  static constexpr std::uint32_t passes = N * plan::stage_groups * 4 / plan::stager_threads;
  static constexpr std::uint32_t pass_columns = plan::stager_threads / 4 / plan::stage_groups;
  static_assert(passes * plan::stager_threads == N * plan::stage_groups * 4 && pass_columns % 8 == 0);
  using registers = uint4[passes][2];

  __device__ activation_reader(const matmul_work& work, const item_list<N, K>& items, std::uint32_t thread)
      : work_(work),
        items_(items),
        quarter_(thread % 4),
        column_(thread / 4 % pass_columns),
        group_(thread / 4 / pass_columns),
        item_(items.first()) {
    // A warp has eight columns by eight pieces of 16 bytes; lane 8 m + r has the address of piece m of column
    // r.
    const std::uint32_t lane = thread % 32;
    store_at_ = (group_ * N + column_ / 8 * 8 + lane % 8) * 128 + ((lane / 8 ^ lane % 8) << 4U);
    if constexpr (plan::copies) store_at_ = (group_ * N + column_) * 128 + ((quarter_ ^ column_ % 8) << 4U);
  }

  /// Goes to the block's next chunk; at first to the first one of its first item.
  __device__ void next_chunk() {
    const std::uint32_t step = chunk_share<K>::step(work_);
    if (left_ <= step * groups_per_chunk) {
      start_item();
    } else {
#pragma unroll
      for (std::uint32_t p = 0; p < passes; ++p) from_[p] += step * chunk_cols;
      left_ -= step * groups_per_chunk;
    }
    here_ = min(left_, groups_per_chunk);
  }
  /// Loads stage `in_chunk` of the chunk; nothing for groups that the chunk does not have.
  __device__ void load(std::uint32_t in_chunk, registers& v) const {
    if (in_chunk * plan::stage_groups + group_ >= here_) return;
#pragma unroll
    for (std::uint32_t p = 0; p < passes; ++p) {
      const auto* from =
          reinterpret_cast<const uint4*>(from_[p] + in_chunk * plan::stage_groups * group_cols);
      v[p][0] = from[0];
      v[p][1] = from[1];
    }
  }

  /// Starts to copy a stage of activations in packed order.
  __device__ void copy(std::uint32_t in_chunk, std::uint32_t stage) const {
    if (in_chunk * plan::stage_groups + group_ >= here_) return;
#pragma unroll
    for (std::uint32_t p = 0; p < passes; ++p) {
      const __half* from = from_[p] + in_chunk * plan::stage_groups * group_cols;
      const std::uint32_t at = stage + store_at_ + p * pass_columns * 128;
      copy_16(at, from);
      copy_16(at ^ 64U, from + 32);
    }
  }

  /// Writes a stage as operand B: piece w of 8 of a column is word w of its four quarters, k slots 2t, 2t + 1
  /// (8 more for odd w) of mma step w / 2. The pieces of 8 columns are permuted as the tensor cores' swizzle
  /// demands.
  __device__ void store(std::uint32_t stage, const registers& v) const {
#pragma unroll
    for (std::uint32_t p = 0; p < passes; ++p) {
      const std::uint32_t at = stage + store_at_ + p * pass_columns * 128;
      store_pieces(at, v[p][0]);
      store_pieces(at ^ 64U, v[p][1]);
    }
  }

 private:
  /// Four times 8 columns by 16 bytes; a piece takes one word of each of four lanes.
  static __device__ void store_pieces(std::uint32_t at, const uint4& words) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(words.x),
                 "r"(words.y), "r"(words.z), "r"(words.w)
                 : "memory");
  }

  __device__ void start_item() {
    left_ = 0;
    if (item_ >= items_.count) return;
    const std::uint32_t skipped = chunk_share<K>::first() * groups_per_chunk;
    const packed_matmul_args& a = work_.args.matmul;
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items_.place(work_, item_, row_group, column_tile);
    const column_range range = columns_of<N>(work_.args, column_tile);
#pragma unroll
    for (std::uint32_t p = 0; p < passes; ++p) {
      const std::uint32_t column = p * pass_columns + column_;
      const std::uint32_t m = column_at(work_.args, range.first + (column < range.count ? column : 0));
      from_[p] = a.x + static_cast<std::uint64_t>(m / a.x_divisor) * a.x_stride +
                 (skipped + group_) * group_cols + quarter_ * (plan::copies ? 8 : 16);
    }
    item_ += items_.step();
    left_ = work_.groups - skipped;
  }

  const matmul_work& work_;
  const item_list<N, K> items_;
  std::uint32_t quarter_, column_, group_;
  std::uint32_t item_;      ///< the next one
  std::uint32_t left_ = 0;  ///< groups of the item, from the chunk on
  std::uint32_t here_ = 0;  ///< groups of the chunk
  std::uint32_t store_at_;
  const __half* from_[passes];  ///< where the chunk begins
};

/// What a stager thread does. The warps that read a stage order its writes before the tensor cores' reads:
/// with the fence here, it would wait for the loads that run ahead.
template <packed_format F, std::uint32_t N, k_sharing K>
class stager {
  using plan = block_plan<F, N, K>;
  using reader_type = activation_reader<F, N, K>;
  static constexpr std::uint32_t depth = plan::stages_ahead;
  static constexpr std::uint32_t unrolled_chunks =
      depth > plan::chunk_stages ? depth / plan::chunk_stages : 1;

 public:
  /// Called when the launch's list of tiles is there.
  __device__ stager(const matmul_work& work, const block_memory<F, N, K>& memory)
      : work_(work),
        memory_(memory),
        items_(work),
        weights_(work, memory, threadIdx.x - plan::multipliers * warpgroup_threads),
        reader_(work, items_, threadIdx.x - plan::multipliers * warpgroup_threads) {}

  __device__ void run() {
    weights_.start(items_);
    __syncwarp();
    wait_for_previous_kernel();
    allow_next_kernel();
    if constexpr (plan::copies)
      copy_stages();
    else
      write_stages();
    // The copies that are still to be started wait until the last stages have been used.
    while (weights_.pending(items_)) {
#pragma unroll 1
      for (std::uint32_t s = 0; s < plan::chunk_stages; ++s) {
        wait_for_stage(s);
        report(s);
      }
      next_chunk();
    }
  }

 private:
  __device__ void copy_stages() {
    const std::uint32_t total = items_.of_block() * chunk_share<K>::count(work_);
    while (chunk_ < total) {
      reader_.next_chunk();
#pragma unroll 1
      for (std::uint32_t s = 0; s < plan::chunk_stages; ++s) {
        const std::uint32_t stage = buffer_ * plan::chunk_stages + s;
        wait_for_stage(s);
        reader_.copy(s, memory_.address() + stage * plan::stage_bytes);
        arrive_when_copied(memory_.full(stage));
        report(s);
      }
      next_chunk();
    }
  }
  __device__ void write_stages() {
    typename reader_type::registers values[depth];
#pragma unroll
    for (std::uint32_t stage = 0; stage < depth; ++stage) load(stage, values);
    const std::uint32_t total = items_.of_block() * chunk_share<K>::count(work_);
    while (chunk_ < total) {
#pragma unroll
      for (std::uint32_t c = 0; c < unrolled_chunks; ++c) {
        if (c > 0 && chunk_ == total) break;
        stage_chunk(c * plan::chunk_stages, values);
      }
    }
  }

  /// `nth` counts stages from the beginning of some chunk.
  __device__ __forceinline__ void load(std::uint32_t nth, typename reader_type::registers (&values)[depth]) {
    if (nth % plan::chunk_stages == 0) reader_.next_chunk();
    reader_.load(nth % plan::chunk_stages, values[nth % depth]);
  }
  __device__ __forceinline__ void stage_chunk(std::uint32_t first,
                                              typename reader_type::registers (&values)[depth]) {
#pragma unroll
    for (std::uint32_t s = 0; s < plan::chunk_stages; ++s) {
      const std::uint32_t nth = first + s;
      const std::uint32_t stage = buffer_ * plan::chunk_stages + s;
      wait_for_stage(s);
      reader_.store(memory_.address() + stage * plan::stage_bytes, values[nth % depth]);
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(memory_.full(stage));
      load(nth + depth, values);
      report(s);
    }
    next_chunk();
  }
  __device__ __forceinline__ void wait_for_stage(std::uint32_t in_chunk) const {
    barrier_wait_unbounded(memory_.empty(buffer_ * plan::chunk_stages + in_chunk), parity_);
  }
  /// That a stage may be written again tells that the weights it was multiplied with have been used.
  __device__ __forceinline__ void report(std::uint32_t in_chunk) {
    if (!plan::refill_by_stage && in_chunk + 1 < plan::chunk_stages) return;
    if (chunk_ >= plan::ring_chunks) weights_.used(items_, in_chunk);
    __syncwarp();
  }
  __device__ __forceinline__ void next_chunk() {
    ++chunk_;
    if (++buffer_ < plan::ring_chunks) return;
    buffer_ = 0;
    parity_ ^= 1U;
  }

  const matmul_work& work_;
  const block_memory<F, N, K>& memory_;
  const item_list<N, K> items_;
  weight_feeder<F, N, K> weights_;
  reader_type reader_;
  std::uint32_t chunk_ = 0;   ///< of the block's work
  std::uint32_t buffer_ = 0;  ///< its place in the ring
  std::uint32_t parity_ = 1;
};

}  // namespace orcd::kernels
