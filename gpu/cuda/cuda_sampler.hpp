// The two ends of a decode step on the device: its tokens are written before the forward pass, and the next
// ones are chosen after it, without the host in between. GPU thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/sample/step_control.hpp"

namespace orcd::gpu {

/// One token of a decode step: all that a sequence has in it, or one of several in a row.
struct decoding_sequence {
  engine::slot_id slot{};
  engine::token_id token = -1;  ///< -1: fed back on the device
  std::uint32_t position = 0;
  kernels::sample_request sample;
  std::uint32_t rotary_shift = 0;                   ///< engine::sequence_step::rotary_shift
  std::span<const engine::state_copy> states = {};  ///< of the step; until launch() returns
};

/// A place in a forward pass: a column, and a row among the columns that sample.
struct pass_place {
  std::uint32_t column = 0;
  std::uint32_t row = 0;
};

/// Buffers that the forward pass and the sampler share.
struct forward_buffers {
  kernels::step_token* steps = nullptr;
  std::int32_t* sample_rows = nullptr;
  const float* logits = nullptr;
  const std::uint32_t* banned = nullptr;
  kernels::step_turn* turns = nullptr;    ///< kernels::step_target::turns
  kernels::seen_block* blocks = nullptr;  ///< kernels::step_target::blocks
};

class cuda_sampler {
 public:
  /// `arena` holds layout.end bytes, zeroed. Results go to `results`.
  cuda_sampler(const sampler_layout& layout, const vram_arena& arena, const forward_buffers& shared,
               std::uint32_t vocab, std::uint32_t slots, std::uint32_t context, cudaStream_t stream);

  /// Tokens that end a sequence.
  void set_ends(std::span<const engine::token_id> tokens);
  void set_results(kernels::sample_result* results) noexcept { args_.results = results; }
  [[nodiscard]] kernels::sample_result* device_results() const noexcept { return device_results_; }

  /// Enqueues the tokens that a slot's sequence already has, as far back as a look-back window can see.
  void set_history(engine::slot_id slot, std::span<const engine::token_id> tokens);
  /// Enqueues a row of the masks of tokens that may be chosen; a mask that is too short allows no more.
  void write_mask(std::uint32_t row, engine::token_mask mask);
  /// Enqueues the biases of a slot's logits, unless they are there already.
  void write_biases(engine::slot_id slot, std::span<const engine::token_bias> biases);
  /// Enqueues the tokens of a decode step, or those of a pass that has others before them: `at` is where the
  /// first one goes.
  void begin_decode(std::span<const decoding_sequence> sequences, std::uint32_t ticket, pass_place at = {});
  /// The same for a prompt chunk; `sample` is null unless the next token is wanted after it.
  void begin_chunk(const engine::sequence_step& sequence, const kernels::sample_request* sample,
                   std::uint32_t ticket, pass_place at = {});
  /// Enqueues the choice for the first `columns` rows of the logits. Takes nothing that changes from step to
  /// step, so that a graph can hold it.
  void sample(std::uint32_t columns);
  /// The same for a step whose greedy keys the forward pass has computed.
  void sample(std::span<const decoding_sequence> sequences, unsigned long long* keys);

 private:
  template <class Word>
  void write(std::int32_t* to, std::size_t count, Word word);

  kernels::step_target to_;
  kernels::sample_args args_;
  std::uint32_t* ends_;
  std::uint32_t* allowed_;                                  ///< [rows][words]
  kernels::sample_bias* biases_;                            ///< [slots][sample_biases_max]
  std::vector<std::vector<engine::token_bias>> biases_of_;  ///< what was written last, by slot
  kernels::sample_result* device_results_;
  cudaStream_t stream_;
};

}  // namespace orcd::gpu
