// What the CUDA backend's workspace holds: every buffer of a forward pass and of the sampler, by the sizes
// that it is loaded for. The backend allocates by these offsets, and plans without a GPU count by them. Host
// arithmetic alone; requests were checked before (check_cuda_support). Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/cuda_extents.hpp"
#include "gpu/plan/decode_program_plan.hpp"
#include "gpu/plan/device_memory_plan.hpp"
#include "gpu/plan/model_support.hpp"
#include "kernels/decode_program/decode_program.hpp"

namespace orcd::gpu {

/// What a backend's owner may choose about steps.
struct step_choices {
  std::uint32_t chunk_tokens = 0;             ///< 0: the configuration's, or the best for the model
  std::optional<std::uint32_t> one_kernel{};  ///< cuda_extents::one_kernel
  bool shortens = false;                      ///< nobody asked for chunk_tokens, so that memory may decide
  std::uint32_t least = engine::prompt_tokens_least;  ///< what memory may bring chunk_tokens down to
};
/// The decode program ends with the choice of a token, which models that embed or rank do not make; one that
/// attends all to all takes a whole context at once.
[[nodiscard]] step_choices choices_for(const engine::model_spec& spec,
                                       const engine::accelerator_config& config,
                                       step_choices wanted = {}) noexcept;
/// The next ones that take less memory: half the prompt tokens of a step. None if somebody asked for as many
/// or there are no shorter steps.
[[nodiscard]] std::optional<step_choices> with_shorter_steps(const step_choices& choices) noexcept;

/// Most sequences of a step in one kernel.
[[nodiscard]] inline std::uint32_t program_sequences(const engine::model_spec& spec,
                                                     const cuda_extents& extents) noexcept {
  if (!program_fits(spec)) return 0;
  const std::uint32_t best = sequences_best(spec.embedding, spec.experts > 0 ? spec.experts_used : 0);
  const std::uint32_t most = spec.integer_activations ? 1 : kernels::program_sequences_max;
  return std::min({extents.slots, most, extents.one_kernel.value_or(best)});
}

/// What layers with other mixers than attention keep of the slots' sequences.
[[nodiscard]] std::uint64_t states_bytes(const engine::model_spec& spec, const cuda_extents& extents);

/// Of a model that is loaded with `config`, for which `choices` have been made (choices_for).
[[nodiscard]] cuda_extents extents_for(const engine::model_spec& spec,
                                       const engine::accelerator_config& config,
                                       const step_choices& choices) noexcept;

/// Offsets of every buffer of a forward pass in its arena.
struct work_layout {
  work_layout(const engine::model_spec& spec, const cuda_extents& extents);

  std::uint64_t steps, sample_rows, page_tables, inv_freq;
  std::uint64_t ints, int_scales, int_sums;
  std::uint64_t half_out, residual, normed, qkv, q, attended, hidden, activated, expert_out, arrivals;
  std::uint64_t router_logits, chosen, expert_weights, order, tiles, tile_count;
  std::uint64_t partials, logits, banned, key;
  std::uint64_t image, image_bytes;  ///< of operand B, of a dense product's input
  /// Of layers with a dense part beside their experts: what the experts give, f32. And what experts activate,
  /// whose padding nothing but zeros may be written to; `activated` but for has_experts_apart().
  std::uint64_t second_half_out, expert_activated;
  /// What the expert that every token has activates; `activated` where all feed-forwards are as wide.
  std::uint64_t shared_activated;
  /// Of models whose layers have inputs of their own: those of all layers, and by what rows of the stream
  /// were divided.
  struct {
    std::uint64_t values, factors;
  } layer_inputs;
  std::uint64_t program, program_state, program_stamps;
  /// Flagged words that the blocks of the decode program hand to each other.
  struct {
    std::uint64_t residual, qkv, attended, activated, expert_out, router_logits, inner, page_partials, end;
  } flagged;
  /// Of models with latents: queries before and after their heads' matrices, what heads give, and the pairs
  /// of a column and a head in the order of heads.
  struct {
    std::uint64_t factor, factor_half, query, unrotated, rotated, query_in_latent, attended, values;
    std::uint64_t head_ids, order, tiles, tile_count;
  } latent;
  /// Of models with recurrent layers (mixed_layout, kernels/recurrent/recurrent_layer.hpp).
  struct {
    std::uint64_t mixed, factors, decays, values, gated_query;
    std::uint64_t runs, run_count, wanted, wanted_bytes;
    std::uint64_t slots, slots_bytes;  ///< what is kept of the slots' sequences
  } recurrent;
  std::uint64_t bytes = 0;

 private:
  /// What halves and their parts leave for each other; `ffn` and `expert` are widths in halves.
  void reserve_activations(const engine::model_spec& spec, std::uint64_t columns, std::uint32_t ffn,
                           std::uint32_t expert, arena_plan& plan);
  /// Inputs of products besides rows of f16: rows of int8, or an image; of a width of 0 there is none.
  void reserve_inputs(std::uint64_t int_width, std::uint64_t image_width, std::uint64_t columns,
                      arena_plan& plan);
  void reserve_recurrence(const engine::model_spec& spec, const cuda_extents& extents, arena_plan& plan);
  /// Behind the others; returns the end.
  std::uint64_t reserve_latents(const engine::model_spec& spec, std::uint64_t columns, arena_plan& plan);
};

/// Offsets of the sampler's buffers in the arena, after those of the forward pass: all of the workspace.
struct sampler_layout {
  sampler_layout(const engine::model_spec& spec, const cuda_extents& extents);

  std::uint64_t asked, slot_states, history, ticket, ends, allowed, biases, results;
  std::uint64_t end = 0;  ///< of the last buffer
};

}  // namespace orcd::gpu
