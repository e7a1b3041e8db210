// The warpgroups of the throughput kernel that bring activations into shared memory, in the order of k in
// which the weights are packed (packed_matrix.hpp).
#pragma once

#include "kernels/bulk_copy.cuh"
#include "kernels/device_math.cuh"
#include "kernels/packed_matmul_shape.cuh"

namespace orcd::kernels {

/// What one stager thread brings of a stage: `passes` times 16 columns of k (a quarter of a group) of one
/// column of the matrix. Neighbouring threads bring the quarters of a group, the next four the next column.
/// Columns past an item's last are read like its first; their results are never stored.
template <packed_format F, std::uint32_t N>
class activation_reader {
  using plan = block_plan<F, N>;

 public:
  static constexpr std::uint32_t passes = N * plan::stage_groups * 4 / plan::stager_threads;
  static constexpr std::uint32_t pass_columns = plan::stager_threads / 4 / plan::stage_groups;
  static_assert(passes * plan::stager_threads == N * plan::stage_groups * 4);
  using registers = uint4[passes][2];

  __device__ activation_reader(const matmul_work& work, std::uint32_t thread)
      : quarter_(thread % 4),
        column_(thread / 4 % pass_columns),
        group_(thread / 4 / pass_columns),
        items_(work),
        item_(blockIdx.x) {}

  /// Loads the next stage, if there is one.
  __device__ void load(const matmul_work& work, registers& v) {
    if (left_ == 0) {
      if (item_ >= items_.count) return;
      start_item(work);
    }
    // An odd number of groups leaves half a stage that nobody multiplies.
    const std::uint32_t ahead = plan::stage_groups == 2 && left_ < 2 ? 0 : group_ * group_cols;
#pragma unroll
    for (std::uint32_t p = 0; p < passes; ++p) {
      const auto* from = reinterpret_cast<const uint4*>(from_[p] + ahead);
      v[p][0] = from[0];
      v[p][1] = from[1];
      from_[p] += plan::stage_groups * group_cols;
    }
    left_ -= min(left_, plan::stage_groups);
    if (left_ == 0) item_ += gridDim.x;
  }

  /// Writes a stage as operand B: word w of 8 is k slots 2t, 2t + 1 (and 8 more for odd w) of mma step w / 2.
  /// Eight columns by four quarters hit every bank once.
  __device__ void store(std::uint32_t stage, const registers& v) const {
    const std::uint32_t at = stage + (group_ * N + column_) * 128 + (column_ % 8) * 16 + quarter_ * 4;
#pragma unroll
    for (std::uint32_t w = 0; w < 8; ++w) {
#pragma unroll
      for (std::uint32_t p = 0; p < passes; ++p) {
        const uint4& quad = v[p][w / 4];
        const std::uint32_t word = w % 4 == 0 ? quad.x : w % 4 == 1 ? quad.y : w % 4 == 2 ? quad.z : quad.w;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"((at ^ w << 4U) + p * pass_columns * 128), "r"(word)
                     : "memory");
      }
    }
  }

 private:
  __device__ void start_item(const matmul_work& work) {
    const packed_matmul_args& a = work.args.matmul;
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items_.place(work, item_, row_group, column_tile);
    const column_range range = columns_of<N>(work.args, column_tile);
#pragma unroll
    for (std::uint32_t p = 0; p < passes; ++p) {
      const std::uint32_t column = p * pass_columns + column_;
      const std::uint32_t m = column_at(work.args, range.first + (column < range.count ? column : 0));
      from_[p] = a.x + static_cast<std::uint64_t>(m / a.x_divisor) * a.x_stride + quarter_ * 16;
    }
    left_ = work.groups;
  }

  std::uint32_t quarter_, column_, group_;
  item_list<N> items_;
  std::uint32_t item_;
  std::uint32_t left_ = 0;  ///< groups of the item
  const __half* from_[passes];
};

/// All that a stager thread does. `stages` is the ring, `barriers` its full and then its empty barriers.
/// The readers of a stage order these writes before the tensor cores' reads: a fence here would wait for
/// the loads that run ahead.
template <packed_format F, std::uint32_t N>
__device__ void stage_activations(const matmul_work& work, std::uint32_t stages, std::uint32_t barriers) {
  using plan = block_plan<F, N>;
  using reader_type = activation_reader<F, N>;
  constexpr std::uint32_t depth = plan::stages_ahead;
  wait_for_previous_kernel();
  allow_next_kernel();
  reader_type reader(work, threadIdx.x - plan::multipliers * warpgroup_threads);
  const item_list<N> items(work);
  const std::uint32_t item_stages = (work.groups + plan::stage_groups - 1) / plan::stage_groups;
  std::uint32_t total = 0;
  if (blockIdx.x < items.count) total = ((items.count - blockIdx.x - 1) / gridDim.x + 1) * item_stages;
  typename reader_type::registers values[depth];
#pragma unroll
  for (std::uint32_t d = 0; d < depth; ++d) reader.load(work, values[d]);
  std::uint32_t stage = 0;
  std::uint32_t parity = 1;
  while (true) {
#pragma unroll
    for (std::uint32_t d = 0; d < depth; ++d) {
      if (total-- == 0) return;
      barrier_wait_unbounded(barriers + (plan::stages + stage) * 8, parity);
      reader.store(stages + stage * plan::stage_bytes, values[d]);
      __syncwarp();
      if (threadIdx.x % 32 == 0) barrier_arrive(barriers + stage * 8);
      reader.load(work, values[d]);
      if (++stage == plan::stages) {
        stage = 0;
        parity ^= 1U;
      }
    }
  }
}

}  // namespace orcd::kernels
