// Lays out a decode step that is one kernel (kernels/decode_program/decode_program.hpp): its phases in order,
// and for each product which row tiles every block multiplies, for one sequence and for as many as fit. Pure;
// made once, before READY. Any thread.
//
//   cuda_forward::plan_layers()    add_begin; for each layer add_matmul (QKV), add_attention,
//                                  add_matmul (output), [add_route,] add_matmul (gate and up),
//                                  add_matmul (down) [, add_combine]; with integer activations
//                                  add_ternary instead of add_matmul
//   cuda_forward::write_program()  add_head; phases() and shares() --> device, read by every launch
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"
#include "kernels/decode_program/decode_program.hpp"
#include "kernels/layer/norm_to_int8.hpp"

namespace orcd::gpu {

/// Most phases of the output head. Its rows are cut into parts whose sums leave room for the rings of
/// weights.
inline constexpr std::uint32_t head_parts_max = 16;
inline constexpr std::uint32_t head_sums_max = 24 * 1024;  ///< bytes of one part's sums in a block

/// Working memory up to which a product's sums and the next phase's input get separate places. With more, the
/// rings of weights would be too small.
inline constexpr std::uint32_t overlap_bytes_max = 64 * 1024;

/// Sequences that one kernel can do: at most twelve pairs of a sequence and an expert, and at most 12 Ki
/// values in the rows that are normed together.
[[nodiscard]] constexpr std::uint32_t sequences_taken(std::uint32_t width,
                                                      std::uint32_t experts_used) noexcept {
  return std::clamp(std::min(12 * 1024 / std::max(1U, width), 12 / std::max(1U, experts_used)), 1U,
                    kernels::program_sequences_max);
}
/// Sequences up to which one kernel is faster than many, measured on an H200: narrow rows only one.
[[nodiscard]] constexpr std::uint32_t sequences_best(std::uint32_t width,
                                                     std::uint32_t experts_used) noexcept {
  return width <= 1024 ? 1 : sequences_taken(width, experts_used);
}

/// Most phases of a step of a model.
[[nodiscard]] inline std::uint64_t phases_max(const engine::model_spec& spec) noexcept {
  return 1 + spec.layers.size() * (spec.experts > 0 ? 7 : 5) + head_parts_max;
}

/// Most rows of shares that a model needs; layers of equal shapes have the same rows.
[[nodiscard]] std::uint64_t share_rows_max(const engine::model_spec& spec, std::uint32_t sequences);

class decode_program_plan {
 public:
  /// For steps of up to `sequences` sequences.
  explicit decode_program_plan(std::uint32_t blocks, std::uint32_t sequences = 1)
      : blocks_(blocks), sequences_(sequences) {}

  // `in` and `out` are device memory: the flagged words that the phase before writes, and those that this
  // phase writes.

  /// First: hands the residual stream, as the kernel before left it, to the blocks that own its rows in the
  /// output product `o`.
  void add_begin(const kernels::packed_matmul_args& o, std::uint64_t* out);
  /// A product of one column, or of one column for each chosen expert. A product that adds to the residual
  /// stream must have the rows of `o`.
  void add_matmul(const kernels::packed_matmul_args& args, const std::uint64_t* in, std::uint64_t* out);
  /// The same where all products of layers, also the one whose rows are those of the residual stream, are of
  /// ternary matrices and int8: begins with ternary matrix `o`, whose products add to `residual`.
  void add_begin(const kernels::ternary_matrix& o, float* residual, std::uint64_t* out);
  /// A product that reads `input`. What it adds to is the residual stream; gate and up, activated as
  /// `activated` (null: not gate and up) reads them, give one output.
  void add_ternary(const kernels::ternary_matmul_args& args, const kernels::norm_to_int8_args& input,
                   const kernels::norm_to_int8_args* activated, const std::uint64_t* in, std::uint64_t* out);
  void add_attention(const kernels::decode_attention_args& args, const std::uint64_t* in, std::uint64_t* out,
                     std::uint64_t* partials = nullptr);
  /// The two products after it are those of the chosen experts; the first one's input is the norm that this
  /// phase computes.
  void add_route(const kernels::route_args& args, const std::uint64_t* in, std::uint64_t* out);
  void add_combine(const kernels::combine_experts_args& args, const std::uint64_t* in, std::uint64_t* out);
  /// Last: the product of the residual stream's norm that gives the logits, in steps of one sequence. False,
  /// and nothing is added, if there is no room for it.
  [[nodiscard]] bool add_head(const kernels::packed_matmul_args& args, const std::uint64_t* in);

  /// Whether the kernel can do steps of so many sequences: f16 caches, heads of one width, no more chosen
  /// experts than blocks, no more sequences than sequences_taken(), and enough shared memory for the widest
  /// phase.
  [[nodiscard]] bool fits(std::uint32_t sequences = 1) const;

  [[nodiscard]] const std::vector<kernels::decode_phase>& phases() const noexcept { return phases_; }
  /// [rows][blocks]
  [[nodiscard]] const std::vector<kernels::block_share>& shares() const noexcept { return shares_; }
  /// The row of shares of a phase.
  [[nodiscard]] const kernels::share_row& row_of(std::uint32_t phase) const { return rows_.at(phase); }
  /// Working memory that the widest phase needs besides weights, a multiple of 128.
  [[nodiscard]] std::uint32_t work_bytes(std::uint32_t sequences = 1) const;
  /// In steps of one sequence: where in it attention begins, so that its input lies past the sums of the
  /// product before.
  [[nodiscard]] std::uint32_t attention_at() const noexcept { return attention_at_; }
  /// Kept memory, a multiple of 128.
  [[nodiscard]] std::uint32_t kept_bytes(std::uint32_t sequences = 1) const noexcept {
    return kernels::kept_bytes(width(), experts_ > 0, sequences);
  }
  [[nodiscard]] std::uint32_t width() const noexcept { return o_.w[0].rows; }
  [[nodiscard]] std::uint32_t experts() const noexcept { return experts_; }
  [[nodiscard]] std::uint32_t padded_head_width() const noexcept { return padded_head_width_; }
  /// What a kernel must have code for.
  [[nodiscard]] kernels::program_needs needs() const noexcept {
    return {formats_, experts_ > 0, residual_tile_rows_ == kernels::ternary_tile_rows};
  }

  /// Device bytes for so many phases and rows of shares.
  [[nodiscard]] static std::uint64_t bytes(std::uint64_t phases, std::uint64_t rows,
                                           std::uint32_t blocks) noexcept {
    return phases * sizeof(kernels::decode_phase) + rows * blocks * sizeof(kernels::block_share);
  }

 private:
  /// For steps of up to `sequences_max` sequences.
  void add_product(const kernels::packed_matmul_args& args, const std::uint64_t* in, std::uint64_t* out,
                   std::uint32_t sequences_max);
  kernels::decode_phase& add(kernels::phase_kind kind, const std::uint64_t* in, std::uint64_t* out);
  /// Sets the shares of the last phase, [1 or sequences][blocks]; equal rows are stored once.
  void assign_shares(const std::vector<kernels::block_share>& shares, bool by_sequences);
  void assign_residual_rows();
  void begin_residual(std::uint64_t* out);
  void reserve_work(std::uint32_t sequences, std::uint32_t work_bytes);
  /// In steps of one sequence the last phase loads `input_bytes` of input while the phase before still stores
  /// outputs: moves the sums of that one past the input, if there is room for both.
  void place_sums_past_input(std::uint32_t input_bytes);
  void prefetch_next_norm(const float* weights);

  std::uint32_t blocks_, sequences_;
  kernels::packed_matmul_args o_;  ///< its rows are those of the residual stream
  std::uint32_t residual_tile_rows_ = kernels::tile_rows;
  std::vector<kernels::decode_phase> phases_;
  std::vector<kernels::share_row> rows_;  ///< of each phase
  std::vector<kernels::block_share> shares_;
  std::array<std::uint32_t, kernels::program_sequences_max> work_bytes_{};   ///< by number of sequences
  std::array<std::uint32_t, kernels::program_sequences_max> chunk_bytes_{};  ///< the largest chunk
  std::vector<std::uint32_t> sums_bytes_;                                    ///< of each phase, one sequence
  std::uint32_t attention_at_ = 0;
  bool taken_ = true;
  std::uint32_t experts_ = 0;
  std::uint32_t experts_used_ = 0;
  std::uint32_t padded_head_width_ = 0;
  std::uint32_t formats_ = 0;     ///< of the weights of all products
  std::uint32_t norms_ = 0;       ///< phases with a norm so far
  std::uint32_t routes_ = 0;      ///< routes so far
  std::uint32_t norm_at_ = 0;     ///< the last phase with a norm, or the first phase
  std::uint32_t router_at_ = 0;   ///< the last route, or the first phase
  std::uint32_t chooses_at_ = 0;  ///< the phase that chooses the experts of the last route
  std::uint32_t rounds_at_ = 0;   ///< the last ternary product, or the first phase
};

}  // namespace orcd::gpu
