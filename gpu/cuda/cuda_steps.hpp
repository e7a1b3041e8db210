// Steps on the device, launched ahead of their results. The device feeds its tokens back, so that the next
// step needs nothing from the host but its launch.
//
//   launch():   tokens of the step --> forward pass (one kernel, a graph or launches) --> sampler --> ring
//               (chunks of prompts and what decodes are columns of one pass, which reads the weights once)
//   collect():  wait for the tickets of the oldest entry of the ring --> tokens, log probabilities
//
// Up to depth() launches may be uncollected. GPU thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "gpu/cuda/cuda_adapters.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/cuda/cuda_logit_choice.hpp"
#include "gpu/cuda/cuda_pooling.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/cuda_result_ring.hpp"
#include "gpu/cuda/cuda_sampler.hpp"
#include "gpu/cuda/media/cuda_media.hpp"
#include "gpu/plan/step_costs.hpp"

namespace orcd::gpu {

struct cuda_steps_options {
  bool pinned = true;        ///< results through pinned memory
  bool graphs = true;        ///< replay graphs for decode steps of few sequences that are many kernels
  bool keep_logits = false;  ///< copy sampled rows to the host, which waits for every step; tests
};

class cuda_steps {
 public:
  /// Allocates the ring and captures the graphs. `work` holds layout.end bytes.
  cuda_steps(cuda_forward& forward, const sampler_layout& layout, const vram_arena& work,
             const cuda_extents& extents, std::uint32_t vocab, const engine::accelerator_config& config,
             const cuda_steps_options& options, cudaStream_t stream, cuda_adapters& adapters,
             const cuda_media* media = nullptr);
  /// From now on every sequence is pooled. `m` outlives the object.
  void pool(const engine::model& m) {
    pooling_.emplace(m, extents_);
    causal_ = m.spec.causal;
  }

  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  [[nodiscard]] std::uint32_t draft_tokens() const noexcept { return extents_.draft_tokens; }
  [[nodiscard]] double step_cost(std::uint32_t tokens) const noexcept { return costs_.of(tokens); }
  // As engine::accelerator defines them.
  [[nodiscard]] engine::kv_geometry kv_pages() const noexcept { return forward_.pages().geometry(); }
  void begin(const engine::sequence_start& start);
  void extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
              std::span<const engine::kv_page> pages);
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept;
  void launch(std::span<const engine::sequence_step> sequences, const engine::interrupt_flag& interrupt);
  [[nodiscard]] bool collect(const engine::interrupt_flag& interrupt,
                             std::vector<engine::sampled_token>& sampled);
  void release(engine::slot_id slot) noexcept;
  /// Empty unless options.keep_logits.
  [[nodiscard]] std::span<const float> logits(engine::slot_id slot) const noexcept;

 private:
  /// A prompt's chunk, and what is asked behind its last token, if anything is.
  struct prompt_chunk {
    engine::sequence_step part;
    kernels::sample_request request;
    sampled_row row;
  };
  /// Whose pages a slot's table has: those of a sequence that was begun, the slot's own, or those of one that
  /// has ended.
  enum class table_of { begun, own, ended };

  void prepare();
  void capture_graphs(std::uint32_t most);
  void begin_row(std::uint32_t columns);
  void capture_row_graphs();
  void measure_costs();
  template <class Enqueue>
  [[nodiscard]] graph_exec capture(Enqueue enqueue);
  [[nodiscard]] cudaGraphExec_t graph_of(std::uint32_t sequences, bool in_a_row) const noexcept;
  void use_own_pages(engine::slot_id slot);
  void enqueue(std::span<const engine::sequence_step> sequences, const engine::interrupt_flag& interrupt);
  void enqueue_pooled(const engine::sequence_step& sequence, std::uint32_t entry);
  void enqueue_passes();
  void enqueue_pass(std::span<const prompt_chunk> chunks, std::span<const decoding_sequence> decodes);
  void enqueue_decodes();
  [[nodiscard]] kernels::sample_request request_of(const engine::sequence_step& sequence, std::uint32_t i,
                                                   std::uint32_t entry);
  [[nodiscard]] sampled_row row_of(const engine::sequence_step& sequence, std::uint32_t i,
                                   std::uint32_t entry) const;
  void add_chunk(const engine::sequence_step& sequence, std::uint32_t entry);
  void add_decodes(const engine::sequence_step& sequence, std::uint32_t entry);
  void run_decodes(std::uint32_t columns, bool in_a_row);
  void run_decode(std::uint32_t sequences);
  void run_in_a_row(std::uint32_t columns);
  void finish_rows(std::span<const sampled_row> rows);
  void keep_logits(std::uint32_t row, engine::slot_id slot);
  [[nodiscard]] bool wait(std::uint32_t entry, const engine::interrupt_flag& interrupt);
  void drop() noexcept;

  cuda_forward& forward_;
  cuda_adapters& adapters_;
  const cuda_media* media_;  ///< null: no step has rows of media
  cuda_extents extents_;
  std::uint32_t vocab_;
  cuda_steps_options options_;
  cudaStream_t stream_;
  std::uint32_t depth_;
  cuda_sampler sampler_;
  cuda_result_ring ring_;
  cuda_logit_choice choice_;
  std::vector<graph_exec> graphs_;      ///< from the smallest number of sequences on that is not one kernel
  std::vector<graph_exec> row_graphs_;  ///< of steps with drafts, from two tokens on
  std::vector<graph_exec> adapter_graphs_[cuda_adapters::graph_kinds];  ///< from one sequence on
  std::vector<std::vector<engine::slot_id>> sampled_slots_;             ///< by entry of the ring
  // Of the step being launched, and of a pass of it.
  std::vector<prompt_chunk> chunks_;
  std::vector<decoding_sequence> decodes_;
  std::vector<sampled_row> decode_rows_;               ///< of these
  std::vector<engine::slot_id> pass_slots_;            ///< of the pass
  std::vector<std::uint32_t> chunk_columns_;           ///< of the pass, by chunk
  std::vector<sampled_row> pass_rows_;                 ///< of the pass
  const engine::interrupt_flag* interrupt_ = nullptr;  ///< of the step
  bool in_a_row_ = false;                              ///< some of them are of one sequence
  std::uint32_t draft_masks_ = 0;                      ///< in the step
  step_costs costs_;
  std::vector<std::uint32_t> filled_;            ///< positions written, by slot
  std::vector<table_of> tables_;                 ///< by slot
  std::vector<std::vector<float>> host_logits_;  ///< by slot
  std::vector<std::uint32_t> rows_;  ///< by entry of the ring: tokens of a decode pass with drafts; else 0
  std::vector<std::chrono::nanoseconds> row_waits_;  ///< by number of such tokens: the last wait for them
  std::optional<cuda_pooling> pooling_;
  bool causal_ = true;
  std::vector<std::vector<engine::sampled_token>> pooled_;  ///< pooled results, by entry of the ring
  std::uint64_t launches_ = 0;
  std::uint32_t uncollected_ = 0;
  bool interrupted_ = false;  ///< a launched step is incomplete
};

}  // namespace orcd::gpu
