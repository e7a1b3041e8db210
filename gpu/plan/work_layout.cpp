#include "gpu/plan/work_layout.hpp"

#include "gpu/plan/draft_room.hpp"
#include "gpu/plan/kept_layout.hpp"
#include "gpu/plan/kv_layout.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "gpu/plan/mixed_layout.hpp"
#include "gpu/plan/step_results.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"
#include "kernels/attention/paged_attention.hpp"
#include "kernels/images/column_image.hpp"
#include "kernels/layer/experts_args.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"
#include "kernels/sample/sample_args.hpp"

namespace orcd::gpu {
namespace {

/// Widths of a model's buffers, in values.
struct widths {
  explicit widths(const engine::model_spec& spec)
      : embedding(kernels::padded_cols(spec.embedding)),
        head(kernels::padded_head_width(spec.key_length_max())) {
    for (const auto& layer : spec.layers) {
      qkv = std::max(qkv, layer.qkv_rows());
      q = std::max(q, layer.heads * kernels::padded_head_width(layer.key_length));
      attended = std::max(attended, kernels::padded_cols(layer.attended_rows()));
      ffn = std::max({ffn, kernels::padded_cols(layer.ffn_size), kernels::padded_cols(layer.shared_size)});
      if (layer.ffn == engine::ffn_kind::moe)
        expert = std::max(expert, kernels::padded_cols(layer.width_of_expert()));
      heads = std::max(heads, layer.heads);
    }
    if (spec.latent) {
      qkv = spec.latent.rank + spec.latent.rotated;
      q = 0;
      attended = kernels::padded_cols(heads * spec.latent.value_length);
      head = spec.latent.rank;
    }
    used = std::max(1U, spec.experts_used);
    if (!has_experts_apart(spec)) expert = ffn;
    activated_words = std::uint64_t{used} * ffn / (spec.integer_activations ? 1 : 2);
  }
  std::uint32_t embedding, head;
  std::uint32_t qkv = 0, q = 0, attended = 0, ffn = 0, expert = 0, heads = 0, used = 1;
  std::uint64_t activated_words = 0;  ///< flagged words of a token: two f16 values each, or one f32
};

/// Weights of all layers that a token is multiplied by.
std::uint64_t products_of(const engine::model_spec& spec) noexcept {
  const std::uint64_t matrices = has_gate(spec.activation) ? 3 : 2;
  std::uint64_t sum = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    const std::uint64_t used = layer.ffn == engine::ffn_kind::moe ? std::max(spec.experts_used, 1U) : 1;
    const std::uint64_t attention = std::uint64_t{layer.qkv_rows()} + layer.attended_rows();
    const std::uint64_t dense = layer.expert_size > 0 ? layer.ffn_size : 0;
    const engine::recurrent_spec& mixer = spec.recurrence;
    const std::uint64_t recurrent =
        !engine::is_recurrent(layer.mixer) ? 0
        : engine::has_state(layer.mixer)
            ? std::uint64_t{mixer.conv_channels(layer.mixer)} + 2ULL * mixer.values()
            : 4ULL * mixer.short_channels;
    sum += spec.embedding *
           (attention + recurrent + matrices * (dense + used * layer.width_of_expert() + layer.shared_size));
  }
  return sum;
}

}  // namespace

std::uint64_t states_bytes(const engine::model_spec& spec, const cuda_extents& extents) {
  return kept_layout(spec, kept_boundaries(extents.draft_tokens)).slot_values * extents.slots * sizeof(float);
}

step_choices choices_for(const engine::model_spec& spec, const engine::accelerator_config& config,
                         step_choices wanted) noexcept {
  if (spec.pooling) {
    wanted.one_kernel = 0;
    if (wanted.chunk_tokens == 0) wanted.chunk_tokens = engine::prompt_tokens_least;
    if (!spec.causal) wanted.chunk_tokens = config.context_tokens;
  }
  if (wanted.chunk_tokens == 0) wanted.chunk_tokens = config.chunk_tokens;
  // Latents have a workspace for every head of every column.
  if (wanted.chunk_tokens == 0 && spec.latent) wanted.chunk_tokens = engine::prompt_tokens_least;
  wanted.shortens = wanted.chunk_tokens == 0;
  if (wanted.shortens)
    wanted.chunk_tokens = engine::prompt_tokens_of(spec.experts, spec.experts_used, products_of(spec));
  // Rows of a picture that see each other are computed in one step.
  const std::uint32_t together = media_rows_at_once(config.media);
  wanted.least = std::max(wanted.least, together);
  wanted.chunk_tokens = std::max(wanted.chunk_tokens, together);
  return wanted;
}

std::optional<step_choices> with_shorter_steps(const step_choices& choices) noexcept {
  if (!choices.shortens || choices.chunk_tokens <= choices.least) return std::nullopt;
  step_choices out = choices;
  out.chunk_tokens = std::max(choices.least, choices.chunk_tokens / 2);
  return out;
}

cuda_extents extents_for(const engine::model_spec& spec, const engine::accelerator_config& config,
                         const step_choices& choices) noexcept {
  cuda_extents out{config.slots, config.context_tokens, choices.chunk_tokens,
                   config.kv,    config.kv_pages,       choices.one_kernel};
  out.scratch_page = config.cache.share || config.cache.imported;
  out.adapters = config.adapters.count > 0;
  out.window_groups = config.window_groups;
  out.boundaries = config.boundaries;
  out.draft_tokens = plan_drafts(spec, out.slots, out.pages_per_slot(), config.draft_tokens).tokens;
  return out;
}

work_layout::work_layout(const engine::model_spec& spec, const cuda_extents& extents) {
  const widths w(spec);
  const std::uint64_t columns = extents.columns();
  const std::uint64_t pairs = columns * w.used;
  const std::uint64_t rope_tables = spec.layers.size();
  arena_plan plan;
  steps = plan.reserve(columns * sizeof(kernels::step_token));
  sample_rows = plan.reserve(extents.sampling() * sizeof(std::int32_t));
  page_tables = plan.reserve(page_tables_bytes(spec, extents));
  inv_freq = plan.reserve(rope_tables * kernels::rope_pairs_max * sizeof(float));
  residual = plan.reserve(columns * spec.embedding * sizeof(float));
  normed = plan.reserve(columns * w.embedding * 2);
  // No kernel writes its padding, which must stay zero.
  attended = plan.reserve(columns * w.attended * 2);
  qkv = plan.reserve(columns * w.qkv * sizeof(float));
  q = plan.reserve(columns * w.q * 2);
  // Experts' outputs lie where attention's input was, which has been used by then.
  expert_out = qkv;
  const std::uint64_t expert_out_bytes = spec.experts > 0 ? pairs * spec.embedding * sizeof(float) : 0;
  if (expert_out_bytes > plan.bytes() - qkv) plan.reserve(expert_out_bytes - (plan.bytes() - qkv));
  half_out = plan.reserve(spec.post_norms || spec.shared_gate ? columns * spec.embedding * sizeof(float) : 0);
  reserve_activations(spec, columns, w.ffn, w.expert, plan);
  reserve_inputs(spec.integer_activations ? std::max({w.embedding, w.attended, w.ffn}) : 0,
                 spec.integer_activations ? 0 : std::max(w.embedding, w.attended), columns, plan);
  arrivals = plan.reserve(columns * std::max(w.heads, 1U) * sizeof(std::uint32_t));
  router_logits = plan.reserve(columns * spec.experts * sizeof(float));
  chosen = plan.reserve(pairs * sizeof(std::int32_t));
  expert_weights = plan.reserve(pairs * sizeof(float));
  order = plan.reserve(pairs * sizeof(std::int32_t));
  tiles = plan.reserve(pairs * sizeof(kernels::image_tile));  // as many as tiles of one column
  tile_count = plan.reserve(sizeof(std::int32_t));
  logits = plan.reserve(std::uint64_t{extents.sampling()} * spec.vocab * sizeof(float));
  banned = plan.reserve((spec.vocab + 31) / 32 * sizeof(std::uint32_t));
  key = plan.reserve(sizeof(unsigned long long));
  const std::uint32_t together = program_sequences(spec, extents);
  const std::uint64_t phases = together > 0 ? phases_max(spec) : 0;
  const std::uint64_t rows = together > 0 ? share_rows_max(spec, together) : 0;
  program = plan.reserve(decode_program_plan::bytes(phases, rows, kernels::program_blocks_max));
  program_state = plan.reserve(sizeof(kernels::program_state));
  const auto words = [&](std::uint64_t values) {
    return plan.reserve(together * values * sizeof(std::uint64_t));
  };
  flagged.residual = words(spec.embedding);
  flagged.qkv = words(w.qkv);
  flagged.attended = words(w.attended / 2);
  flagged.activated = words(w.activated_words);
  flagged.expert_out = words(spec.experts > 0 ? std::uint64_t{w.used} * spec.embedding : 0);
  flagged.router_logits = words(spec.experts);
  const auto partial_floats = [&](std::uint32_t sequences) {
    return kernels::decode_partial_floats(sequences, w.heads, extents.pages_per_slot(), w.head);
  };
  const bool handed = together > 0 && extents.kv == engine::kv_types{};
  flagged.inner = words(extents.adapters ? 2 * kernels::program_inner_max : 0);
  flagged.page_partials = plan.reserve(handed ? partial_floats(1) * sizeof(std::uint64_t) : 0);
  flagged.end = plan.bytes();
  // With one slot, and neither adapters nor drafts, steps either use the decode program or they do not, so
  // that words and floats are never in use together.
  partials = handed && extents.sampling() == 1 && !extents.adapters
                 ? flagged.page_partials
                 : plan.reserve(partial_floats(extents.sampling()) * sizeof(float));
  program_stamps = plan.reserve(extents.phase_stamps ? phases * kernels::program_blocks_max *
                                                           kernels::phase_stamps * sizeof(std::uint64_t)
                                                     : 0);
  reserve_recurrence(spec, extents, plan);
  bytes = reserve_latents(spec, columns, plan);
}

void work_layout::reserve_recurrence(const engine::model_spec& spec, const cuda_extents& extents,
                                     arena_plan& plan) {
  const std::uint64_t columns = spec.is_recurrent() ? extents.columns() : 0;
  const engine::recurrent_spec& of = spec.recurrence;
  const std::uint64_t heads = std::uint64_t{of.value_heads} * sizeof(float);
  std::uint64_t gated = 0;
  for (const engine::layer_spec& layer : spec.layers) {
    if (layer.query_gate) gated = std::max<std::uint64_t>(gated, 2 * layer.q_rows());
  }
  recurrent.mixed = plan.reserve(columns * mixed_layout::widest(spec) * sizeof(float));
  recurrent.factors = plan.reserve(columns * heads);
  recurrent.decays = plan.reserve(columns * heads);
  recurrent.values =
      plan.reserve(columns * kernels::padded_cols(std::max(of.values(), of.short_channels)) * 2);
  recurrent.gated_query = plan.reserve(extents.columns() * gated * sizeof(float));
  recurrent.runs = plan.reserve(columns * sizeof(kernels::device_run));
  recurrent.run_count = plan.reserve(columns > 0 ? sizeof(std::int32_t) : 0);
  recurrent.wanted_bytes = columns * sizeof(kernels::wanted_state);
  recurrent.wanted = plan.reserve(recurrent.wanted_bytes);
  recurrent.slots_bytes = states_bytes(spec, extents);
  recurrent.slots = plan.reserve(recurrent.slots_bytes);
}

void work_layout::reserve_activations(const engine::model_spec& spec, std::uint64_t columns,
                                      std::uint32_t ffn, std::uint32_t expert, arena_plan& plan) {
  const bool apart = has_experts_apart(spec);
  const std::uint64_t inputs = spec.layer_inputs * spec.layers.size();
  second_half_out = plan.reserve(spec.dense_and_experts ? columns * spec.embedding * sizeof(float) : 0);
  layer_inputs.values = plan.reserve(columns * inputs * sizeof(float));
  layer_inputs.factors = plan.reserve(inputs > 0 ? columns * sizeof(float) : 0);
  const bool gated = spec.integer_activations || spec.activation == engine::ffn_activation::geglu_tanh;
  const std::uint64_t hidden_values = gated ? 2ULL * ffn : has_gate(spec.activation) ? 0 : ffn;
  const std::uint64_t of_experts =
      has_gate(spec.activation) || spec.experts == 0 ? 0 : std::uint64_t{spec.experts_used} * expert;
  hidden = plan.reserve(columns * std::max({inputs, hidden_values, of_experts}) * sizeof(float));
  // As an image it has columns between experts' tiles.
  const auto halves = [&](std::uint64_t pairs, std::uint32_t experts, std::uint32_t width) {
    return plan.reserve(kernels::sorted_image_columns(pairs, std::max(experts, 1U)) * width * 2);
  };
  const std::uint64_t pairs = columns * std::max(1U, spec.experts_used);
  const std::uint32_t width = std::max(ffn, kernels::padded_cols(spec.layer_inputs));
  activated = apart ? halves(columns, 1, width) : halves(pairs, spec.experts, width);
  expert_activated = apart ? halves(pairs, spec.experts, expert) : activated;
  std::uint32_t shared = 0;
  bool differs = false;
  for (const engine::layer_spec& layer : spec.layers) {
    shared = std::max(shared, kernels::padded_cols(layer.shared_size));
    differs = differs || (layer.shared_size > 0 && layer.ffn_size != layer.shared_size);
  }
  shared_activated = differs ? plan.reserve(columns * shared * 2) : activated;
}

void work_layout::reserve_inputs(std::uint64_t int_width, std::uint64_t image_width, std::uint64_t columns,
                                 arena_plan& plan) {
  ints = plan.reserve(columns * int_width);
  int_scales = plan.reserve(int_width > 0 ? columns * sizeof(float) : 0);
  int_sums = plan.reserve(int_width > 0 ? columns * sizeof(std::int32_t) : 0);
  image_bytes = (columns + kernels::image_align) * image_width * 2;
  image = plan.reserve(image_bytes);
}

std::uint64_t work_layout::reserve_latents(const engine::model_spec& spec, std::uint64_t columns,
                                           arena_plan& plan) {
  const engine::latent_spec& of = spec.latent;
  const std::uint64_t pairs = of ? columns * spec.layers.front().heads : 0;
  const std::uint64_t rotated_width = kernels::padded_latent_row(of.rank, of.rotated) - of.rank;
  latent.factor = plan.reserve(columns * of.query_rank * sizeof(float));
  latent.factor_half = plan.reserve(columns * kernels::padded_cols(of.query_rank) * 2);
  latent.query = plan.reserve(pairs * of.key_length * sizeof(float));
  latent.unrotated = plan.reserve(pairs * kernels::padded_cols(of.unrotated()) * 2);
  latent.rotated = plan.reserve(pairs * rotated_width * 2);
  latent.query_in_latent = plan.reserve(pairs * of.rank * sizeof(float));
  latent.attended = plan.reserve(pairs * kernels::padded_cols(of.rank) * 2);
  latent.values = plan.reserve(pairs * of.value_length * sizeof(float));
  latent.head_ids = plan.reserve(pairs * sizeof(std::int32_t));
  latent.order = plan.reserve(pairs * sizeof(std::int32_t));
  latent.tiles = plan.reserve(pairs * sizeof(kernels::expert_tile));
  latent.tile_count = plan.reserve(of ? sizeof(std::int32_t) : 0);
  return plan.bytes();
}

sampler_layout::sampler_layout(const engine::model_spec& spec, const cuda_extents& extents) {
  const std::uint32_t rows = extents.sampling();
  const std::uint32_t slots = extents.slots;
  const std::uint64_t vocab_words = (spec.vocab + 31) / 32;
  arena_plan plan;
  plan.reserve(work_layout(spec, extents).bytes);
  asked = plan.reserve(rows * sizeof(kernels::sample_column));
  slot_states = plan.reserve(slots * sizeof(kernels::slot_state));
  history = plan.reserve(std::uint64_t{slots} * extents.context * sizeof(std::int32_t));
  ticket = plan.reserve(sizeof(std::uint32_t));
  ends = plan.reserve(vocab_words * sizeof(std::uint32_t));
  allowed = plan.reserve(rows * vocab_words * sizeof(std::uint32_t));
  biases = plan.reserve(std::uint64_t{slots} * kernels::sample_biases_max * sizeof(kernels::sample_bias));
  results = plan.reserve(result_ring_bytes(rows));
  end = plan.bytes();
}

}  // namespace orcd::gpu
