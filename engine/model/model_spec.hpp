// A model's architecture as data. Families fill it in from GGUF keys (engine/model/family/); the forward
// passes branch on these fields and never on a family's name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/kv_type.hpp"
#include "engine/model/pooling.hpp"
#include "engine/model/recurrent_spec.hpp"

namespace orcd::engine {

/// How RoPE pairs dimensions: (2i, 2i+1) or (i, i + dims/2).
enum class rope_pairing { interleaved, half_split };

enum class rope_scaling { none, linear, yarn, longrope };

/// Which of a token's three positions (time, line, column; the same number for text) turns which pair of a
/// head. by_section: time the first sections[0] pairs, lines those behind them, columns the rest. in_turn:
/// pair i by i % 3, lines up to pair 3 * sections[1] and columns up to 3 * sections[2], all else time.
enum class rope_axes { one, by_section, in_turn };

/// One layer's rotary embedding. theta_i = position * base^(-2i/dims) / freq_factor_i, scaled as
/// `scaling` says; see engine/model/rope.hpp for the formula.
struct rope_spec {
  rope_pairing pairing = rope_pairing::half_split;
  std::uint32_t dims = 0;  ///< rotated dimensions of a head; the rest pass through
  double base = 10'000.0;
  rope_scaling scaling = rope_scaling::none;
  double factor = 1.0;  ///< context extension; frequency scale is 1/factor
  std::uint32_t original_context = 0;
  double ext_factor = 1.0;   ///< YaRN extrapolation mix
  double attn_factor = 1.0;  ///< multiplies the magnitude
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool round_correction_dims = false;  ///< floor/ceil of the YaRN bounds: every family but gpt-oss
  double log_multiplier = 0.0;         ///< YaRN: the magnitude is divided by 1 + 0.1 * this * ln(factor)
  /// YaRN: scores are multiplied by the square of 1 + 0.1 * this * ln(factor) (model_spec::attention_scale).
  double score_log_multiplier = 0.0;
  bool fixed = false;        ///< an operator's overrides are for the other layers
  bool file_factors = true;  ///< the file's rope_freqs, where it has them, are for this layer
  rope_axes axes = rope_axes::one;
  std::array<std::uint32_t, 3> sections{};  ///< pairs; with axes
};

/// none: the layer mixes tokens alone.
enum class ffn_kind { dense, moe, none };
/// swiglu: silu(g)*u. swiglu_clamped: gpt-oss, min(g,7)*sigmoid(1.702 g)*(clamp(u,-7,7)+1). gelu: no gate,
/// u/2 * (1 + erf(u/sqrt 2)). relu_squared: max(g,0)^2 * u. geglu_tanh: G(g)*u, and gelu_tanh: no gate, G(u),
/// with G(a) = a/2 * (1 + tanh(sqrt(2/pi) * (a + 0.044715 a^3))). squared_relu: no gate, max(u,0)^2.
/// gelu_sigmoid: no gate, u*sigmoid(1.702 u).
enum class ffn_activation {
  swiglu,
  swiglu_clamped,
  gelu,
  relu_squared,
  geglu_tanh,
  gelu_tanh,
  squared_relu,
  gelu_sigmoid
};
[[nodiscard]] constexpr bool has_gate(ffn_activation activation) noexcept {
  return activation != ffn_activation::gelu && activation != ffn_activation::gelu_tanh &&
         activation != ffn_activation::squared_relu && activation != ffn_activation::gelu_sigmoid;
}
/// The gated activations that a file or an operator can name.
[[nodiscard]] constexpr std::string_view to_string(ffn_activation activation) noexcept {
  return activation == ffn_activation::relu_squared ? "relu2"
         : activation == ffn_activation::swiglu     ? "silu"
                                                    : "";
}
[[nodiscard]] constexpr std::optional<ffn_activation> gated_activation_named(std::string_view name) noexcept {
  for (const ffn_activation activation : {ffn_activation::swiglu, ffn_activation::relu_squared}) {
    if (to_string(activation) == name) return activation;
  }
  return std::nullopt;
}
/// before (pre-norm): norms before each half of a layer, where it has one, and one after the last layer.
/// after (post-norm): LayerNorm with bias after the embedding and after each half, on the residual stream
/// itself.
enum class norm_placement { before, after };
/// RMS: x / sqrt(mean(x^2) + eps) * weight. layer: the mean is subtracted first, and a bias may be added.
enum class norm_kind { rms, layer };
/// How router logits become weights: softmax over all experts, with the chosen ones renormalised or not, or
/// softmax over the chosen logits only, or the sigmoid of each logit, with the chosen ones renormalised or
/// not.
enum class router_weighting {
  softmax_all_renormalised,
  softmax_selected,
  softmax_all,
  sigmoid_renormalised,
  sigmoid
};
[[nodiscard]] constexpr bool is_sigmoid(router_weighting weighting) noexcept {
  return weighting == router_weighting::sigmoid || weighting == router_weighting::sigmoid_renormalised;
}

/// What orders groups of experts: the sum of what a group's two best have, biases of the choice included, or
/// what its best has.
enum class group_ranking { two_best, best };

struct layer_spec {
  mixer_kind mixer = mixer_kind::attention;  ///< of another kind: it has no heads and no cache
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t key_length = 0;    ///< head dimension of Q and K; with latents that of a cached row
  std::uint32_t value_length = 0;  ///< head dimension of V; with latents that part of a cached row
  std::uint32_t window = 0;        ///< sliding window in tokens, counting the current one; 0 = full attention
  std::uint32_t kv_source = 0;     ///< layer whose cache it reads: itself, unless reads_other_cache
  /// The layer has queries alone, and attends to what layer kv_source has stored: a layer before it, with the
  /// same heads and window, and a cache of its own.
  bool reads_other_cache = false;
  /// There is no attn_v: a head's value is what attn_k gives, before the key's norm and rotation. Both are
  /// cached, and take rows of their own beside Q.
  bool values_from_keys = false;
  /// attn_q gives for each head a gate behind its query, as wide: what the head has gathered is multiplied by
  /// the gate's sigmoid.
  bool query_gate = false;
  rope_spec rope;  ///< dims 0: the layer's heads are not rotated
  ffn_kind ffn = ffn_kind::dense;
  std::uint32_t ffn_size = 0;     ///< hidden width of the (per-expert) feed-forward
  std::uint32_t shared_size = 0;  ///< hidden width of the expert that every token has; 0 = there is none
  /// Hidden width of an expert where the layer has a dense part beside its experts
  /// (model_spec::dense_and_experts); ffn_size is the dense part's then. 0: it has no such pair.
  std::uint32_t expert_size = 0;

  /// Heads whose keys and values it caches.
  [[nodiscard]] constexpr std::uint32_t cached_heads() const noexcept {
    return reads_other_cache ? 0 : kv_heads;
  }
  /// Hidden width of one of its experts.
  [[nodiscard]] constexpr std::uint32_t width_of_expert() const noexcept {
    return expert_size != 0 ? expert_size : ffn_size;
  }
  /// Rows of the three matrices, without gates, and of all together; of values_from_keys V has as many,
  /// copied.
  [[nodiscard]] constexpr std::uint32_t q_rows() const noexcept { return heads * key_length; }
  [[nodiscard]] constexpr std::uint32_t k_rows() const noexcept { return cached_heads() * key_length; }
  [[nodiscard]] constexpr std::uint32_t v_rows() const noexcept { return cached_heads() * value_length; }
  [[nodiscard]] constexpr std::uint32_t qkv_rows() const noexcept { return q_rows() + k_rows() + v_rows(); }
  /// Values that attention gives.
  [[nodiscard]] constexpr std::uint32_t attended_rows() const noexcept { return heads * value_length; }
};

/// Multi-head latent attention: all heads have one cached row, the normed latent and behind it a key part
/// that is rotated. A query's unrotated part is brought into the latent's space by its head's attn_k_b, so
/// that keys are the rows as they lie and values their first `rank` values; attn_v_b brings what a head has
/// gathered back. Source: DeepSeek-V2 2405.04434, section 2.1.
struct latent_spec {
  std::uint32_t rank = 0;          ///< values of the latent; 0 = the model has none of this
  std::uint32_t query_rank = 0;    ///< Q is attn_q_b of the norm of attn_q_a; 0 = it is attn_q of the input
  std::uint32_t key_length = 0;    ///< of a head's query before it is in the latent's space
  std::uint32_t value_length = 0;  ///< of what a head gives to attn_output
  std::uint32_t rotated = 0;       ///< the last so many values of a query and of a cached row
  [[nodiscard]] explicit operator bool() const noexcept { return rank != 0; }
  [[nodiscard]] std::uint32_t unrotated() const noexcept { return key_length - rotated; }
};

/// A tensor of the weights, absent when its data pointer is null.
struct layer_weights {
  tensor_view attn_norm, attn_norm_bias;
  tensor_view attn_qkv, attn_qkv_bias;  ///< fused, rows Q|K|V; else the three below
  tensor_view attn_q, attn_k, attn_v;
  tensor_view attn_q_bias, attn_k_bias, attn_v_bias;
  tensor_view attn_q_norm, attn_k_norm;           ///< before RoPE: see model_spec::head_norm
  tensor_view attn_q_a, attn_q_a_norm, attn_q_b;  ///< latent_spec::query_rank
  tensor_view attn_kv_a, attn_kv_a_norm;          ///< rows of the latent, then of the rotated key
  tensor_view attn_k_b;                           ///< {unrotated, rank, heads}
  tensor_view attn_v_b;                           ///< {rank, value_length, heads}
  tensor_view attn_kv_b;                          ///< instead of them; gpu/plan/latent_weights.hpp parts it
  tensor_view attn_sub_norm;                      ///< RMS norm of what attention gives, before attn_output
  tensor_view attn_output, attn_output_bias;
  tensor_view attn_output_norm, attn_output_norm_bias;    ///< norm_placement::after
  tensor_view layer_output_norm, layer_output_norm_bias;  ///< norm_placement::after, too
  tensor_view attn_sinks;
  // Of layers with another mixer; rows of mix_in: q|k|v of a delta net, gate|x|B|C|dt of Mamba-2, b|c|x of a
  // short convolution.
  tensor_view mix_in;
  tensor_view mix_gate;             ///< delta net: of what its heads give
  tensor_view mix_beta, mix_decay;  ///< delta net: a row for each value head; or both in one,
  tensor_view mix_beta_decay;       ///< as recurrent_spec::joint_beta_decay says
  tensor_view conv, conv_bias;      ///< {conv_kernel, channels}, the oldest row first
  tensor_view decay_rate;           ///< [value_heads], none above 0
  tensor_view decay_bias;           ///< [value_heads], before the softplus
  tensor_view skip;                 ///< Mamba-2: [value_heads]
  tensor_view mix_norm;             ///< of what the heads give
  tensor_view mix_out;
  tensor_view attn_post_norm, ffn_post_norm;  ///< model_spec::post_norms
  /// model_spec::dense_and_experts: of the experts' input, of what the dense part and what the experts give.
  tensor_view ffn_norm_2, ffn_post_norm_1, ffn_post_norm_2;
  tensor_view ffn_norm, ffn_norm_bias;
  tensor_view ffn_gate_up;  ///< fused, rows gate|up; else the two below
  tensor_view ffn_gate, ffn_up, ffn_down;
  tensor_view ffn_sub_norm;  ///< RMS norm of the activated values, before ffn_down
  tensor_view ffn_gate_bias, ffn_up_bias, ffn_down_bias;
  tensor_view router, router_bias;
  tensor_view router_norm;  ///< model_spec::router_norm; 1 / sqrt(embedding) is in the weights already
  tensor_view choice_bias;  ///< added to what the router gives experts, for the choice, not for the weights
  tensor_view shared_gate, shared_up, shared_down;
  tensor_view shared_router;  ///< the shared expert's output is multiplied by sigmoid(shared_router . x)
  tensor_view expert_gate, expert_up, expert_down;  ///< {cols, rows, experts}
  tensor_view expert_gate_up;  ///< fused, rows gate|up of each expert; else the two of them
  tensor_view expert_gate_bias, expert_up_bias, expert_down_bias;
  tensor_view expert_scale;  ///< [experts]: multiplies an expert's weight after all else
  /// model_spec::layer_inputs: from the stream, to the stream, and the RMS norm of what is added to it.
  tensor_view layer_input_gate, layer_input_proj, layer_input_norm;
  tensor_view layer_output_scale;  ///< model_spec::output_scales, one value
};

struct model_weights {
  tensor_view token_embd;
  tensor_view output_norm, output_norm_bias;
  tensor_view output;             ///< token_embd when the file ties them
  tensor_view rope_freqs;         ///< divisors of frequencies, F32 [dims/2]: rope_spec::file_factors
  tensor_view rope_factors_long;  ///< longrope
  tensor_view rope_factors_short;
  tensor_view position_embd;  ///< added to the embedding: [positions][embedding]
  tensor_view token_types;    ///< added as well: [segments][embedding]
  tensor_view token_embd_norm, token_embd_norm_bias;
  /// model_spec::layer_inputs: [vocab][layers][layer_inputs], [layers][layer_inputs][embedding] and the
  /// weights of the norm of each layer's part.
  tensor_view layer_input_embd, layer_input_proj, layer_input_norm;
  tensor_view cls, cls_bias;                ///< pooling rank, optional: tanh(cls x + bias)
  tensor_view cls_output, cls_output_bias;  ///< pooling rank: the classifier's outputs, [classes]
  std::vector<layer_weights> layers;
  /// What views point into that is not in the file (engine/model/padding.hpp).
  std::vector<std::shared_ptr<const std::vector<float>>> made;
};

struct model_spec {
  std::string architecture;  ///< general.architecture, for display only
  std::string name;          ///< general.name, or the file's stem
  std::string quant_kind;
  std::uint32_t context_length = 0;  ///< trained context, tokens
  std::uint32_t embedding = 0;
  std::uint32_t vocab = 0;  ///< rows of the output matrix
  /// With it, all layers have one kv head, their key_length and value_length are those of a cached row, and
  /// the value is a part of the key's row.
  latent_spec latent;
  double rms_eps = 1e-5;  ///< of all norms, over widths that are not padded
  std::uint32_t embedding_before =
      0;                         ///< `embedding` without zeros that a converter has added; 0: it has none
  std::uint32_t ffn_before = 0;  ///< the same of ffn_size
  norm_placement norms = norm_placement::before;
  norm_kind norm = norm_kind::rms;  ///< of the residual stream, where norms come before
  /// Halves of a layer that have no norm of their input, where norms come before, read the stream itself.
  /// With this, what a half gives has an RMS norm before it is added to the stream.
  bool post_norms = false;
  bool parallel_halves = false;  ///< both halves of a layer read the norm of the same state
  bool regrouped_heads =
      false;  ///< rows of Q and K lie in another order than in the original (head_rows.hpp)
  bool wide_head_norms = false;          ///< the norms of Q and K are over all heads together, not over each
  norm_kind head_norm = norm_kind::rms;  ///< of Q and K, without a bias
  bool own_head_norms = false;           ///< each head of Q and K has weights of its own: [heads][key_length]
  bool value_norm = false;               ///< an RMS norm without weights of each head's values, with rms_eps
  double embedding_scale = 1.0;          ///< multiplies the embeddings
  double logit_scale = 1.0;              ///< multiplies the logits
  double logit_softcap = 0.0;            ///< then c * tanh(logit / c); 0 = none
  double attention_softcap = 0.0;        ///< the same of attention_scale * q.k
  /// Q is multiplied by 1 + query_scale * ln(1 + floor(position / query_scale_period)); 0 = not.
  double query_scale = 0.0;
  std::uint32_t query_scale_period = 0;
  /// Behind each of so many first layers, rows of pictures get a part added that their tower made for it.
  std::uint32_t deepstack_layers = 0;
  bool pictures_in_windows_alone = false;  ///< rows of a picture see each other in layers with a window alone
  bool causal = true;                      ///< false: a token also attends to later tokens
  bool learned_positions = false;          ///< position and token-type embeddings instead of RoPE
  std::uint32_t positions = 0;             ///< rows of position_embd
  std::uint32_t token_types = 0;           ///< rows of token_types
  std::optional<pooling_kind> pooling;     ///< set: served for embeddings or scores, generates nothing
  std::uint32_t classes = 0;               ///< pooling rank: outputs of the classifier, 1 or 2
  std::uint32_t relevant_class = 0;        ///< of two classes, the one that means relevant
  double attention_scale = 0.0;            ///< multiplies q.k
  ffn_activation activation = ffn_activation::swiglu;
  /// Ternary matrices of layers multiply activations that are rounded to int8 (kernels/host/ternary.hpp).
  bool integer_activations = false;
  router_weighting routing = router_weighting::softmax_all_renormalised;
  std::uint32_t experts = 0;  ///< 0 = no MoE layer
  std::uint32_t experts_used = 0;
  bool biased_choice = false;  ///< layers with experts have a choice_bias, or some of them
  /// Experts are in so many groups of neighbours, and a token's are chosen from `expert_groups_used` of them,
  /// the first by `expert_group_ranking`. 1: from all.
  std::uint32_t expert_groups = 1;
  std::uint32_t expert_groups_used = 1;
  group_ranking expert_group_ranking = group_ranking::two_best;
  double expert_scale = 1.0;  ///< multiplies the experts' weights
  bool shared_gate = false;   ///< layers with a shared expert have a shared_router
  /// The router reads the RMS norm of the stream itself, with weights of its own, and not the experts' input.
  bool router_norm = false;
  /// Layers with experts have a dense feed-forward, too: post_norm_1(dense(ffn_norm(x))) +
  /// post_norm_2(experts(ffn_norm_2(x))) is what the half gives, and what ffn_post_norm is of.
  bool dense_and_experts = false;
  /// Values that each layer has of a token beside the stream; 0 = none. With x the embedding as it enters the
  /// first layer, layer i's are e_i = (norm(proj_i x / sqrt(embedding)) + embd_i[token] * sqrt(layer_inputs))
  /// / sqrt(2), and its end is x += norm(layer_input_proj (gelu_tanh(layer_input_gate x) * e_i)).
  std::uint32_t layer_inputs = 0;
  bool output_scales = false;  ///< each layer's stream is multiplied by layer_output_scale at its end
  recurrent_spec recurrence;   ///< of layers with other mixers than attention
  /// Layers of the file that predict further tokens, behind those of `layers`; they are not loaded.
  std::uint32_t predicting_layers = 0;
  std::vector<layer_spec> layers;

  /// Of norms of the residual stream.
  [[nodiscard]] double residual_eps() const noexcept {
    return embedding_before == 0 ? rms_eps : rms_eps * (static_cast<double>(embedding_before) / embedding);
  }
  /// Of norms of a layer's activated values.
  [[nodiscard]] double activated_eps(const layer_spec& layer) const noexcept {
    return ffn_before == 0 ? rms_eps : rms_eps * (static_cast<double>(ffn_before) / layer.ffn_size);
  }
  /// Of a cached row of values, which latents have none of.
  [[nodiscard]] std::uint32_t cached_value_length(const layer_spec& layer) const noexcept {
    return latent ? 0 : layer.value_length;
  }
  /// Of the layer with the widest heads.
  [[nodiscard]] std::uint32_t key_length_max() const noexcept;
  /// Whether some layer keeps of a sequence what is no page of a cache.
  [[nodiscard]] bool is_recurrent() const noexcept;
  /// Bytes of K and V one position takes in every layer together.
  [[nodiscard]] std::uint64_t kv_bytes_per_token(kv_types types = {}) const noexcept;
};

/// Overrides of the file's RoPE parameters; absent fields keep the file's value.
struct rope_overrides {
  std::optional<rope_scaling> scaling;
  std::optional<double> freq_base;
  std::optional<double> freq_scale;  ///< 1/factor
  std::optional<double> ext_factor;
  std::optional<double> attn_factor;
  std::optional<double> beta_fast;
  std::optional<double> beta_slow;
  std::optional<std::uint32_t> original_context;
  std::optional<bool> round_correction_dims;
};

/// A spec with the tensors it was validated against.
struct model {
  model_spec spec;
  model_weights weights;
};

/// Reads the hyperparameters of a supported family and checks every tensor's shape and type against
/// them; all problems are reported in one message (model_load_failed). `context` is the context the
/// worker will serve, 0 for the model's own; YaRN or linear scaling without a factor takes
/// context / original_context. `pooling` and `activation` (of a gated feed-forward) replace the file's. Views
/// in the result point into `file`.
[[nodiscard]] result<model> load_model(const gguf_file& file, std::uint32_t context = 0,
                                       const rope_overrides& rope = {},
                                       std::optional<pooling_kind> pooling = {},
                                       std::optional<ffn_activation> activation = {});

}  // namespace orcd::engine
