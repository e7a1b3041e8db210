// The static work tables of a decode step in one kernel (kernels/decode_program.hpp): its phases in order,
// and of each product which row tiles every block multiplies, for one column and for as many as fit. Pure;
// made once, before READY. Any thread. Source: issue 4, performance notes 4.3.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"
#include "kernels/decode_program.hpp"

namespace orcd::gpu {

/// Phases of the output head, at most: its rows in parts, so that their sums leave room for the streams.
inline constexpr std::uint32_t head_parts_max = 16;
inline constexpr std::uint32_t head_sums_max = 24 * 1024;  ///< bytes a block, of a part

/// Working memory up to which a product's sums and the next phase's input have a place each: more would leave
/// the streams too little.
inline constexpr std::uint32_t overlap_bytes_max = 64 * 1024;

/// Columns that one kernel takes: twelve pairs of a column and an expert, and rows whose norms are found at
/// once of 12 Ki values together.
[[nodiscard]] constexpr std::uint32_t columns_taken(std::uint32_t width,
                                                    std::uint32_t experts_used) noexcept {
  return std::clamp(std::min(12 * 1024 / std::max(1U, width), 12 / std::max(1U, experts_used)), 1U,
                    kernels::program_columns_max);
}
/// And up to which it is the faster way, measured on an H200: one of narrow rows.
[[nodiscard]] constexpr std::uint32_t columns_best(std::uint32_t width, std::uint32_t experts_used) noexcept {
  return width <= 1024 ? 1 : columns_taken(width, experts_used);
}

/// Phases of a step of a model, at most.
[[nodiscard]] inline std::uint64_t phases_max(const engine::model_spec& spec) noexcept {
  return 1 + spec.layers.size() * (spec.experts > 0 ? 7 : 5) + head_parts_max;
}

/// Rows of shares that a model needs, at most: layers of equal shapes have the same.
[[nodiscard]] std::uint64_t share_rows_max(const engine::model_spec& spec, std::uint32_t columns);

class decode_program_plan {
 public:
  /// For steps of up to `columns` columns.
  explicit decode_program_plan(std::uint32_t blocks, std::uint32_t columns = 1)
      : blocks_(blocks), columns_(columns) {}

  // `in` and `out` are device memory: the flagged words that the phase before writes and that this one does.

  /// First: the residual stream as it is, handed to the blocks that own its rows in the output product `o`.
  void add_begin(const kernels::packed_matmul_args& o, std::uint64_t* out);
  /// A product of one column, or of one column for each chosen expert. What adds to the residual stream must
  /// have the rows of `o`.
  void add_matmul(const kernels::packed_matmul_args& args, const std::uint64_t* in, std::uint64_t* out);
  void add_attention(const kernels::decode_attention_args& args, const std::uint64_t* in, std::uint64_t* out,
                     std::uint64_t* parts = nullptr);
  /// The two products after it are of the experts that it chooses; the first takes its norm.
  void add_route(const kernels::route_args& args, const std::uint64_t* in, std::uint64_t* out);
  void add_combine(const kernels::combine_experts_args& args, const std::uint64_t* in, std::uint64_t* out);
  /// Last: the product of the residual stream's norm, `in`, that gives the logits; for steps of one column.
  /// False, and nothing added, where it has no room beside the rest.
  [[nodiscard]] bool add_head(const kernels::packed_matmul_args& args, const std::uint64_t* in);

  /// Whether the kernel takes steps of so many columns: f16 caches, heads of one width, no more chosen
  /// experts than blocks, no more columns than columns_taken(), and shared memory for the widest phase.
  [[nodiscard]] bool fits(std::uint32_t columns = 1) const;

  [[nodiscard]] const std::vector<kernels::decode_phase>& phases() const noexcept { return phases_; }
  /// [rows][blocks]
  [[nodiscard]] const std::vector<kernels::block_share>& shares() const noexcept { return shares_; }
  /// Of a phase.
  [[nodiscard]] const kernels::share_row& row_of(std::uint32_t phase) const { return rows_.at(phase); }
  /// Shared memory that the widest phase needs beside its weights, a multiple of 128.
  [[nodiscard]] std::uint32_t work_bytes(std::uint32_t columns = 1) const;
  /// Where in it, in steps of one column, attention begins: its input lies past the sums of the product
  /// before.
  [[nodiscard]] std::uint32_t attention_at() const noexcept { return attention_at_; }
  /// Shared memory of what stays from phase to phase, a multiple of 128.
  [[nodiscard]] std::uint32_t kept_bytes(std::uint32_t columns = 1) const noexcept {
    return kernels::kept_bytes(width(), experts_ > 0, columns);
  }
  [[nodiscard]] std::uint32_t width() const noexcept { return o_.w[0].rows; }
  [[nodiscard]] std::uint32_t experts() const noexcept { return experts_; }
  [[nodiscard]] std::uint32_t padded_head_width() const noexcept { return padded_head_width_; }
  /// What its phases need code for.
  [[nodiscard]] kernels::program_needs needs() const noexcept { return {formats_, experts_ > 0}; }

  /// Device bytes that hold so many phases, then so many rows of shares.
  [[nodiscard]] static std::uint64_t bytes(std::uint64_t phases, std::uint64_t rows,
                                           std::uint32_t blocks) noexcept {
    return phases * sizeof(kernels::decode_phase) + rows * blocks * sizeof(kernels::block_share);
  }

 private:
  /// For steps of up to `columns_most` columns.
  void add_product(const kernels::packed_matmul_args& args, const std::uint64_t* in, std::uint64_t* out,
                   std::uint32_t columns_most);
  kernels::decode_phase& add(kernels::phase_kind kind, const std::uint64_t* in, std::uint64_t* out);
  /// The shares of the last phase, [1 or columns][blocks].
  void deal(const std::vector<kernels::block_share>& shares, bool by_columns);
  void give_rows();
  void need(std::uint32_t columns, std::uint32_t work_bytes);
  /// The last phase brings so many bytes of input, of one column, while the one before stores outputs, if
  /// there is room for both.
  void clear_of_sums(std::uint32_t input_bytes);
  void fetch_norm(const float* weights);

  std::uint32_t blocks_, columns_;
  kernels::packed_matmul_args o_;  ///< its rows are the residual stream's
  std::vector<kernels::decode_phase> phases_;
  std::vector<kernels::share_row> rows_;  ///< of each phase
  std::vector<kernels::block_share> shares_;
  std::array<std::uint32_t, kernels::program_columns_max> work_bytes_{};   ///< of a step of so many columns
  std::array<std::uint32_t, kernels::program_columns_max> chunk_bytes_{};  ///< the largest
  std::vector<std::uint32_t> sums_bytes_;                                  ///< of each phase, of one column
  std::uint32_t attention_at_ = 0;
  bool taken_ = true;
  std::uint32_t experts_ = 0;
  std::uint32_t experts_used_ = 0;
  std::uint32_t padded_head_width_ = 0;
  std::uint32_t formats_ = 0;     ///< of all products' weights
  std::uint32_t norms_ = 0;       ///< phases with a norm so far
  std::uint32_t routes_ = 0;      ///< routes so far
  std::uint32_t norm_at_ = 0;     ///< the last phase with a norm, or the first
  std::uint32_t router_at_ = 0;   ///< the last route, or the first phase
  std::uint32_t chooses_at_ = 0;  ///< the phase that chooses the experts of the last route
};

}  // namespace orcd::gpu
