// The forward pass on the GPU as a list of kernel launches: a prompt chunk of one sequence, or one token
// of each of several sequences. Parameters that change from step to step lie in device memory, so that
// a captured graph of a decode step serves every later one. Branches on model_spec fields only.
// GPU thread only. Source: design 3 and 5, M0-W-1420.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda_resources.hpp"
#include "gpu/cuda_weights.hpp"
#include "gpu/decode_program_plan.hpp"
#include "gpu/layer_tap.hpp"
#include "gpu/sequence_form.hpp"
#include "gpu/vram_arena.hpp"
#include "kernels/decode_program.hpp"
#include "kernels/experts.hpp"
#include "kernels/paged_attention.hpp"

namespace orcd::gpu {

/// What memory is planned for.
struct cuda_extents {
  std::uint32_t slots = 1;
  std::uint32_t context = 0;  ///< positions a slot
  std::uint32_t chunk_tokens = 512;
  engine::kv_types kv{};
  std::uint32_t kv_pages = 0;  ///< of the KV cache; 0 = a context's worth for every slot
  /// Sequences of a decode step that is one kernel, at most, where it takes the model; unset: columns_best().
  std::optional<std::uint32_t> one_kernel{};
  bool phase_stamps = false;  ///< that kernel says when it was where

  [[nodiscard]] std::uint32_t pages() const noexcept {
    return kv_pages == 0 ? slots * pages_per_slot() : kv_pages;
  }
  [[nodiscard]] std::uint32_t pages_per_slot() const noexcept {
    return (context + kernels::page_positions - 1) / kernels::page_positions;
  }
  [[nodiscard]] std::uint32_t columns() const noexcept { return chunk_tokens > slots ? chunk_tokens : slots; }
};

/// Columns of a step in one kernel, at most.
[[nodiscard]] inline std::uint32_t program_columns(const engine::model_spec& spec,
                                                   const cuda_extents& extents) noexcept {
  const std::uint32_t best = columns_best(spec.embedding, spec.experts > 0 ? spec.experts_used : 0);
  return std::min({extents.slots, kernels::program_columns_max, extents.one_kernel.value_or(best)});
}

/// Offsets of every buffer of a forward pass in its arena.
struct work_layout {
  explicit work_layout(const engine::model_spec& spec, const cuda_extents& extents);

  std::uint64_t steps, sample_rows, page_table, inv_freq;
  std::uint64_t residual, normed, qkv, q, attended, hidden, activated, parts, arrivals;
  std::uint64_t router_logits, chosen, expert_weights, order, tiles, tile_count;
  std::uint64_t partial, logits, banned, key;
  std::uint64_t program, program_state, program_stamps;
  /// What the blocks of the program hand to each other.
  struct {
    std::uint64_t residual, qkv, attended, activated, parts, router_logits, page_parts, end;
  } flagged;
  std::uint64_t bytes = 0;
};

class cuda_forward {
 public:
  /// `work` and `cache` hold at least work_layout::bytes and extents.pages() pages; both are zero.
  cuda_forward(const engine::model& m, const cuda_weights& weights, const cuda_extents& extents,
               const vram_arena& work, const vram_arena& cache, cudaStream_t stream, layer_tap tap = {});

  /// Ids that are never sampled.
  void ban(std::span<const engine::token_id> tokens);

  /// Enqueues a chunk of one sequence: `columns` consecutive positions, described in steps(). With
  /// `sample`, the last one's logits become row 0.
  void prefill(std::uint32_t columns, bool sample);
  /// How the sequence of the next chunk is read, until it is set again.
  void set_form(const sequence_form& form) noexcept { form_ = form; }
  /// The states after the last layer of the last chunk's columns from `first` on, without the norm that may
  /// follow: [to.size() / embedding][embedding]. Waits for the chunk.
  void copy_states(std::uint32_t first, std::span<float> to) const;
  /// Enqueues one token of each of `columns` sequences; row i of the logits is column i's.
  void decode(std::uint32_t columns);
  /// Enqueues the writing of a slot's page table from position 0 on, and what accelerator::begin() and
  /// clear() do to pages.
  void set_pages(std::uint32_t slot, std::span<const engine::kv_page> pages);
  void copy(const engine::page_copy& what);
  void clear(std::span<const engine::kv_page> pages);
  /// The pages that a slot has of its own, those of `positions`: what is in its table at first. A pool
  /// smaller than all slots' has one page for several.
  [[nodiscard]] std::vector<engine::kv_page> own_pages(std::uint32_t slot, std::uint32_t positions) const;
  /// Decode steps in one kernel, of one sequence, two, and so on as far as that kernel takes the model.
  [[nodiscard]] std::span<const kernels::decode_program> programs() const noexcept { return programs_; }

  [[nodiscard]] kernels::step_column* steps() const noexcept {
    return at<kernels::step_column>(layout_.steps);
  }
  [[nodiscard]] std::int32_t* sample_rows() const noexcept { return at<std::int32_t>(layout_.sample_rows); }
  [[nodiscard]] const float* logits() const noexcept { return at<float>(layout_.logits); }
  /// Bit per id that is never sampled; null when there is none.
  [[nodiscard]] const std::uint32_t* banned() const noexcept {
    return bans_ ? at<std::uint32_t>(layout_.banned) : nullptr;
  }
  /// Of the likeliest token of a decode step of so many columns (kernels::sample_args::keys); null where the
  /// step does not find it. Whoever reads it zeroes it.
  [[nodiscard]] unsigned long long* keys(std::uint32_t columns) const noexcept {
    return columns == 1 && program_has_head_ ? at<unsigned long long>(layout_.key) : nullptr;
  }

 private:
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return work_.at<T>(offset);
  }
  void write_tables();
  void embed(std::uint32_t columns);
  void run(std::uint32_t columns, bool prefill);
  void write_program();
  void plan_layers(decode_program_plan& plan) const;
  [[nodiscard]] kernels::packed_matmul_args qkv_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::rope_store_args rope_of(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] kernels::decode_attention_args attention_of(std::uint32_t layer, std::uint32_t columns) const;
  void activate(kernels::packed_matmul_args& gate_up, std::uint32_t layer) const;
  void read_activated(kernels::packed_matmul_args& down, std::uint32_t layer) const;
  void add_to_residual(kernels::packed_matmul_args& args) const;
  [[nodiscard]] kernels::packed_matmul_args o_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::packed_matmul_args gate_up_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::packed_matmul_args down_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::route_args route_of(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] kernels::packed_matmul_args expert_gate_up_of(std::uint32_t layer, std::uint32_t pairs) const;
  [[nodiscard]] kernels::packed_matmul_args expert_down_of(std::uint32_t layer, std::uint32_t pairs) const;
  [[nodiscard]] kernels::combine_experts_args combine_of(std::uint32_t columns) const;
  [[nodiscard]] kernels::packed_matmul_args head_of() const;
  void norm_inside(kernels::packed_matmul_args& args, const float* norm) const;
  __half* norm_outside(kernels::packed_matmul_args& args) const;
  void attention(std::uint32_t layer, std::uint32_t columns, bool prefill, kernels::packed_matmul_args& qkv,
                 const float* norm);
  void add_positions(std::uint32_t columns);
  void settle(const float* weight, const float* bias, std::uint32_t columns);
  void ungated_ffn(std::uint32_t layer, std::uint32_t columns);
  void run_settled(std::uint32_t columns);
  [[nodiscard]] kernels::next_weights after_layer(std::uint32_t layer) const;
  void dense_ffn(std::uint32_t layer, std::uint32_t columns);
  void expert_ffn(std::uint32_t layer, std::uint32_t columns);
  void sort_experts(std::uint32_t pairs, std::uint32_t tile_columns, kernels::tiled_matmul_args& gate_up,
                    kernels::tiled_matmul_args& down);
  void multiply_experts(const kernels::tiled_matmul_args& args);
  void head(std::uint32_t rows, const std::int32_t* residual_rows);
  void take_norm(kernels::packed_matmul_args& args, const float* norm, std::uint32_t columns);
  void multiply(kernels::packed_matmul_args& args, const float* norm, std::uint32_t columns);
  [[nodiscard]] kernels::kv_pages pages_of(std::uint32_t layer) const;
  [[nodiscard]] std::uint64_t key_page_bytes(std::uint32_t layer) const noexcept;
  [[nodiscard]] std::uint64_t value_page_bytes(std::uint32_t layer) const noexcept;
  void tap(std::string_view name, std::uint32_t layer, const float* values, std::uint64_t count);
  void tap(std::string_view name, std::uint32_t layer, const __half* values, std::uint64_t count);

  const engine::model& model_;
  const engine::model_spec& spec_;
  const cuda_weights& weights_;
  cuda_extents extents_;
  work_layout layout_;
  const vram_arena& work_;
  const vram_arena& cache_;
  cudaStream_t stream_;
  std::uint32_t padded_width_;
  std::vector<std::uint32_t> rope_of_layer_;  ///< index of the layer's table
  std::vector<float> magnitudes_;             ///< of each table
  std::vector<kernels::decode_program> programs_;
  bool program_has_head_ = false;  ///< that of one sequence
  sequence_form form_;
  bool bans_ = false;
  layer_tap tap_;
};

}  // namespace orcd::gpu
