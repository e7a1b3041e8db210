// The outputs of a pass of balanced_matvec.cu. Before the product a thread computes where its first output
// goes and starts to load its scales, its bias and what it is added to; so only the sums are waited for at
// the end.
#pragma once

#include "kernels/product/balanced_plan.cuh"

namespace orcd::kernels {
namespace {

/// An output of the pass that a thread will store.
struct pass_output {
  result_terms terms;
  std::uint32_t to;   ///< index among the launch's outputs
  std::uint32_t sum;  ///< index of its first chunk's sum among the pass's; no_sum for padding
};
constexpr std::uint32_t no_sum = 0xFFFFFFFFU;

/// The outputs of a pass in the order of its sums: by row tile, then column, then row.
template <bool Grouped>
class pass_outputs {
 public:
  __device__ __forceinline__ pass_outputs(const packed_matmul_args& a, const balanced_plan& plan,
                                          const balanced_pass& pass, const item_columns<Grouped>& columns)
      : a_(a), plan_(plan), pass_(pass), columns_(columns), inverse_(0x10000U / columns.count + 1) {}

  [[nodiscard]] __device__ __forceinline__ std::uint32_t count() const {
    return pass_.tiles * columns_.count * tile_rows;
  }
  /// Describes output i in `to`, which is in shared memory; its terms are there after copied_floats().
  __device__ __forceinline__ void precompute(std::uint32_t i, pass_output& to) const {
    const std::uint32_t tile = i / tile_rows * inverse_ >> 16U;
    const std::uint32_t column = i / tile_rows - tile * columns_.count;
    const balanced_tile in_matrix = tile_of(a_, plan_, pass_.tile + tile, 0);
    const std::uint32_t row = in_matrix.tile * tile_rows + i % tile_rows;
    const result_place place{columns_[column], in_matrix.matrix, row, plan_.out_row[in_matrix.matrix] + row};
    to.sum = no_sum;
    if (is_padding(a_, place)) return;
    fetch_scales(a_, place, columns_.expert, to.terms.scale, to.terms.bias);
    if (a_.output == matmul_output::add) fetch_old(a_, place, to.terms);
    to.to = is_paired(a_) ? place.column * a_.act_stride + row : place.column * a_.out_stride + place.out_row;
    to.sum = (tile * plan_.in_tile.d * columns_.count + column) * tile_rows + i % tile_rows;
  }

 private:
  const packed_matmul_args& a_;
  const balanced_plan& plan_;
  const balanced_pass& pass_;
  const item_columns<Grouped>& columns_;
  std::uint32_t inverse_;  ///< of columns.count; exact for as many outputs as fit
};
static_assert(multiprocessor_shared_bytes / sizeof(float) / tile_rows < 0x10000U / matvec_columns_max);

/// Prefetches the row scales and biases of a run of experts' outputs into L2.
__device__ __forceinline__ void prefetch_run_terms(const tiled_matmul_args& args, const balanced_plan& plan,
                                                   const tile_run& run) {
  constexpr std::uint32_t in_sector = l2_sector_bytes / sizeof(float);
  constexpr std::uint32_t sectors = tile_rows / in_sector;
  const packed_matmul_args& a = args.matmul;
  const std::uint32_t of_tile = members_of(a) * sectors;
  for (std::uint32_t i = threadIdx.x; i < (run.end - run.first) * of_tile; i += threads) {
    const std::uint32_t tile = run.first + i / of_tile;
    const std::uint32_t item = item_of<true>(plan, tile);
    const balanced_tile at = tile_of(a, plan, tile - item * plan.tiles.d, i % of_tile / sectors);
    const packed_matrix& w = a.w[at.matrix];
    const std::uint32_t row = at.tile * tile_rows + i % sectors * in_sector;
    const std::uint32_t expert = expert_of<true>(args, item);
    if (row >= w.rows) continue;
    if (w.row_scale != nullptr) prefetch_sector(w.row_scale + expert * w.row_scale_stride + row);
    if (a.bias[at.matrix] != nullptr) prefetch_sector(a.bias[at.matrix] + expert * w.rows + row);
  }
}

/// Folds an output's sums, which lie `stride` apart, finishes and stores it.
__device__ __forceinline__ void store_output(const packed_matmul_args& a, const pass_output& output,
                                             const float* sums, std::uint32_t chunks, std::uint32_t stride) {
  if (output.sum == no_sum) return;
  const float* const from = sums + output.sum;
  if (is_paired(a)) {
    const float* const members[2] = {from, from + chunks * stride};
    float folded[2];
    fold(members, chunks, stride, folded);
    a.act[output.to] = activated(a.output, output.terms, folded[0], folded[1]);
    return;
  }
  const float value = with_terms(output.terms, 0, fold(from, chunks, stride));
  a.out[output.to] = a.output == matmul_output::add ? __fadd_rn(output.terms.old, value) : value;
}

/// Stores the outputs of the pass: each thread the one that it has precomputed, then every threads-th after
/// it.
template <bool Grouped>
__device__ __forceinline__ void store_pass(const packed_matmul_args& a, const balanced_plan& plan,
                                           const pass_outputs<Grouped>& outputs, pass_output& output,
                                           std::uint32_t columns, const float* sums) {
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < outputs.count();) {
    copied_floats();
    store_output(a, output, sums, plan.chunks, columns * tile_rows);
    i += threads;
    if (i < outputs.count()) outputs.precompute(i, output);
  }
}

}  // namespace
}  // namespace orcd::kernels
