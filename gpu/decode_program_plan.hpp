// The static work tables of a decode step in one kernel (kernels/decode_program.hpp): its phases in order,
// and of each product which row tiles every block multiplies. Pure; made once, before READY. Any thread.
// Source: issue 4, performance notes 4.3.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"
#include "kernels/decode_program.hpp"

namespace orcd::gpu {

/// Phases of the output head, at most: its rows in parts, so that their sums leave room for the streams.
inline constexpr std::uint32_t head_parts_max = 16;
inline constexpr std::uint32_t head_sums_max = 24 * 1024;  ///< bytes a block, of a part

/// Phases of a step of a model, at most.
[[nodiscard]] inline std::uint64_t phases_max(const engine::model_spec& spec) noexcept {
  return 1 + spec.layers.size() * (spec.experts > 0 ? 7 : 5) + head_parts_max;
}

class decode_program_plan {
 public:
  explicit decode_program_plan(std::uint32_t blocks) : blocks_(blocks) {}

  // `in` and `out` are device memory: the flagged words that the phase before writes and that this one does.

  /// First: the residual stream as it is, handed to the blocks that own its rows in the output product `o`.
  void add_begin(const kernels::packed_matmul_args& o, std::uint64_t* out);
  /// A product of one column, or of one column for each chosen expert. What adds to the residual stream must
  /// have the rows of `o`.
  void add_matmul(const kernels::packed_matmul_args& args, const std::uint64_t* in, std::uint64_t* out);
  void add_attention(const kernels::decode_attention_args& args, const std::uint64_t* in, std::uint64_t* out);
  /// The two products after it are of the experts that it chooses; the first takes its norm.
  void add_route(const kernels::route_args& args, const std::uint64_t* in, std::uint64_t* out);
  void add_combine(const kernels::combine_experts_args& args, const std::uint64_t* in, std::uint64_t* out);
  /// Last: the product of the residual stream's norm, `in`, that gives the logits. False, and nothing added,
  /// where it has no room beside the rest.
  [[nodiscard]] bool add_head(const kernels::packed_matmul_args& args, const std::uint64_t* in);

  /// Whether the kernel takes all of it: f16 caches, heads of one width, no more chosen experts than blocks,
  /// and shared memory for the widest phase.
  [[nodiscard]] bool fits() const noexcept;

  [[nodiscard]] const std::vector<kernels::decode_phase>& phases() const noexcept { return phases_; }
  /// [phases][blocks]
  [[nodiscard]] const std::vector<kernels::block_share>& shares() const noexcept { return shares_; }
  /// Shared memory that the widest phase needs beside its weights, a multiple of 128.
  [[nodiscard]] std::uint32_t work_bytes() const noexcept { return (work_bytes_ + 127) / 128 * 128; }

  /// Shared memory of the rows fetched ahead, a multiple of 128.
  [[nodiscard]] std::uint32_t row_bytes() const noexcept {
    return ((experts_ > 0 ? 2 : 1) * kernels::row_bytes(width()) + 127) / 128 * 128;
  }
  [[nodiscard]] std::uint32_t width() const noexcept { return o_.w[0].rows; }
  [[nodiscard]] std::uint32_t experts() const noexcept { return experts_; }
  [[nodiscard]] std::uint32_t padded_head_width() const noexcept { return padded_head_width_; }

  /// Device bytes that hold phases, then shares, of at most so many phases.
  [[nodiscard]] static std::uint64_t bytes(std::uint64_t phases, std::uint32_t blocks) noexcept {
    return phases * (sizeof(kernels::decode_phase) + blocks * sizeof(kernels::block_share));
  }

 private:
  kernels::decode_phase& add(kernels::phase_kind kind, const std::uint64_t* in, std::uint64_t* out);
  void give_rows(std::uint32_t phase);
  void fetch_norm(const float* weights);

  std::uint32_t blocks_;
  kernels::packed_matmul_args o_;  ///< its rows are the residual stream's
  std::vector<kernels::decode_phase> phases_;
  std::vector<kernels::block_share> shares_;
  std::uint32_t work_bytes_ = 0;
  std::uint32_t chunk_bytes_ = 0;  ///< the largest
  bool taken_ = true;
  std::uint32_t experts_ = 0;
  std::uint32_t padded_head_width_ = 0;
  std::uint32_t norms_ = 0;       ///< phases with a norm so far
  std::uint32_t routes_ = 0;      ///< routes so far
  std::uint32_t norm_at_ = 0;     ///< the last phase with a norm, or the first
  std::uint32_t router_at_ = 0;   ///< the last route, or the first phase
  std::uint32_t chooses_at_ = 0;  ///< the phase that chooses the experts of the last route
};

}  // namespace orcd::gpu
