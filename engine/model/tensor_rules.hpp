// The tensors of a model as a table: field, name, shape in terms of the spec, condition and allowed types.
// Checking a file against the tables finds every missing, misshapen, mistyped and unknown tensor.
#pragma once

#include <array>
#include <span>

#include "engine/model/model_spec.hpp"
#include "engine/model/problems.hpp"

namespace orcd::engine {

/// A factor of a shape, resolved for one layer.
enum class extent {
  none,
  embedding,
  vocab,
  q_rows,         ///< heads * key_length, of a query before it is in a latent's space
  k_rows,         ///< kv_heads * key_length
  v_rows,         ///< kv_heads * value_length
  qkv_rows,       ///< the sum of the three
  attention_out,  ///< heads * value_length, of a latent's heads theirs
  key_length,
  heads,
  kv_heads,
  ffn,
  ffn_twice,
  shared_ffn,
  expert_ffn,        ///< of layers that have a dense part beside their experts
  expert_ffn_twice,  ///< the same, gate and up
  experts,
  rope_pairs,  ///< rotated dimensions / 2
  positions,
  token_types,
  classes,
  query_rank,
  latent_rank,
  latent_row,   ///< the latent and the rotated key
  unrotated,    ///< of a latent's head
  head_value,   ///< latent_spec::value_length
  joined_rows,  ///< heads * (unrotated + head_value)
  layer_inputs,
  layers_inputs,  ///< of all layers together
  single,         ///< one value
  // Of recurrent_spec, and of the layer's mixer where that matters.
  conv_kernel,
  conv_channels,
  mix_rows,    ///< of mix_in
  mix_values,  ///< what all heads give
  value_heads,
  value_heads_twice,
  norm_width,  ///< of one of norm_groups
  norm_groups,
  short_channels,
};

enum class presence {
  required,
  optional,
  split_qkv,           ///< required unless the layer has a fused attn_qkv
  split_qkv_optional,  ///< allowed unless the layer has a fused attn_qkv
  fused_qkv,           ///< required if the layer has a fused attn_qkv
  own_keys,            ///< required of split_qkv if the layer has a cache of its own
  own_values,          ///< the same, unless keys are its values
  own_cache,           ///< required if the layer has a cache of its own
  dense,               ///< required if the layer's feed-forward is dense
  dense_optional,
  moe,  ///< required if the layer has experts
  moe_optional,
  fused_experts,   ///< required if the layer's experts have gate and up in one
  split_experts,   ///< required if they have not
  shared_expert,   ///< required if the layer has one
  shared_gate,     ///< required if that has a gate
  whole_query,     ///< required unless latent_spec::query_rank says that Q has two factors
  factored_query,  ///< required if it does
  joined_latents,  ///< required unless the layer has attn_k_b
  split_latents,   ///< required if it does
  longrope,
  norm_before,        ///< required where norms come before
  norm_after,         ///< required where they come after
  layer_norm,         ///< allowed where the norm before is a LayerNorm
  learned_positions,  ///< required where positions are learned
  layer_inputs,       ///< required where layers have inputs of their own
  attends,            ///< required if the layer attends
  attends_optional,
  mixes,             ///< required unless the layer is a feed-forward alone
  has_ffn,           ///< required if the layer has both halves
  ffn_alone,         ///< required if the layer is a feed-forward alone
  delta_net,         ///< required if the layer is one
  split_beta_decay,  ///< the same, unless recurrent_spec::joint_beta_decay
  joint_beta_decay,  ///< the same, if it is set
  mamba2,            ///< required if the layer is one
  mamba2_optional,
  short_conv,  ///< required if the layer is one
  rank,        ///< required where the model ranks
  rank_optional,
};

/// `f32`: norms, biases and tables, which no quantizer touches. `any`: every supported type.
enum class types { any, f32 };

struct global_rule {
  tensor_view model_weights::*role;
  const char* name;
  std::array<extent, 3> shape;
  presence when = presence::required;
  types allowed = types::any;
};

struct layer_rule {
  tensor_view layer_weights::*role;
  const char* name;  ///< after "blk.N."
  std::array<extent, 3> shape;
  presence when = presence::required;
  types allowed = types::any;
};

/// What a family's layers have.
struct layer_tables {
  std::span<const std::span<const layer_rule>> rules;
  /// "NAME.scale" beside a matrix "NAME.weight" multiplies its values: all matrices have one, or none.
  /// Beside a stack it may have a value for each of its matrices.
  bool weight_scales = false;
  std::uint32_t unused = 0;                        ///< layers after those of the spec, whose tensors are left
  bool senses = false;                             ///< so are the tensors of images and sound
  const char* output_norm = "output_norm.weight";  ///< the name that the family has for it
};

/// Fills `weights` for a complete spec. Problems go to the list; views of absent optional tensors stay
/// empty, and a missing output matrix becomes token_embd.
void bind_tensors(const gguf_file& file, const model_spec& spec, const layer_tables& layers,
                  model_weights& weights, problem_list& problems);

// Tables that families combine.
[[nodiscard]] std::span<const layer_rule> attention_rules() noexcept;   ///< norm, q, k, v (or qkv), output
[[nodiscard]] std::span<const layer_rule> projection_rules() noexcept;  ///< the same without the norm
[[nodiscard]] std::span<const layer_rule> qkv_bias_optional() noexcept;
[[nodiscard]] std::span<const layer_rule> qkv_bias_required() noexcept;
[[nodiscard]] std::span<const layer_rule> other_bias_optional() noexcept;  ///< of attn_output, gate, up, down
[[nodiscard]] std::span<const layer_rule> head_norm_rules() noexcept;      ///< of Q and K, one head wide
[[nodiscard]] std::span<const layer_rule> gated_ffn_rules() noexcept;      ///< ffn_norm, dense gate, up, down
[[nodiscard]] std::span<const layer_rule> gated_matrices() noexcept;       ///< the same without the norm
[[nodiscard]] std::span<const layer_rule> late_ffn_norm() noexcept;    ///< ffn_norm named post_attention_norm
[[nodiscard]] std::span<const layer_rule> post_norm_rules() noexcept;  ///< of what the halves give
[[nodiscard]] std::span<const layer_rule> expert_rules() noexcept;     ///< router and stacked experts
[[nodiscard]] std::span<const layer_rule> shared_expert_rules() noexcept;
[[nodiscard]] std::span<const layer_rule> either_expert_rules() noexcept;    ///< gate and up in one, or not
[[nodiscard]] std::span<const layer_rule> mixed_attention_rules() noexcept;  ///< where a layer attends
[[nodiscard]] std::span<const layer_rule> mamba2_rules() noexcept;

}  // namespace orcd::engine
