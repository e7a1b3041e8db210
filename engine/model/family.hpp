// Model families: each maps GGUF keys to a model_spec and names its tensor tables. A new family is a
// function, a row in registry.cpp and, if its forward pass needs one, a field of the spec.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model/hparams.hpp"
#include "engine/model/tensor_rules.hpp"

namespace orcd::engine {

enum class expert_use { never, optional, always };

/// A type whose id files of a family have with another meaning.
struct foreign_type {
  ggml_type type;
  const char* what;  ///< it is there
};

struct family {
  std::string_view architecture;  ///< general.architecture
  expert_use experts;             ///< whether expert_count may be, or must be, above 0
  /// Sets what differs from read_common_spec(), which has run before.
  void (*read_spec)(hparam_reader& from, model_spec& spec);
  /// The tables of one layer; static storage.
  std::span<const std::span<const layer_rule>> (*layer_tables)();
  bool weight_scales = false;  ///< "NAME.scale" beside a layer's matrix "NAME.weight" multiplies its values
  std::optional<foreign_type> foreign{};
  /// The last "nextn_predict_layers" of the file's layers predict further tokens, and are not run.
  bool predicting_layers = false;
  bool senses = false;  ///< files may have tensors of images and sound, which are left
  /// Layers may have no key-value heads or no feed-forward: read_spec says what they have instead.
  bool recurrent = false;
  const char* output_norm = "output_norm.weight";  ///< its name in files
};

/// nullptr when not supported.
[[nodiscard]] const family* find_family(std::string_view architecture) noexcept;
/// "llama, qwen2, ..." for messages.
[[nodiscard]] std::string supported_architectures();

/// Reads the keys that every transformer has: sizes, heads, feed-forward, experts, norm, and RoPE without its
/// pairing. The layer count must have been checked before: see load_model. `recurrent`: family::recurrent.
void read_common_spec(hparam_reader& from, model_spec& spec, bool recurrent = false);

/// Refuses keys that change the forward pass and that the family has not read. Called after read_spec.
void refuse_unsupported(hparam_reader& from);

/// Layers that are dense: those before the first with experts, and after it all but every `step`-th. The
/// width of the expert that all tokens have.
void read_moe(hparam_reader& from, model_spec& spec, std::uint32_t step = 1);

/// The groups that experts are chosen from; `ranking` is the family's, since no key says it.
void read_expert_groups(hparam_reader& from, model_spec& spec, group_ranking ranking);

/// Reads the pooling (`chosen`, or else the file's) and the sizes of the tensors that only pooled models
/// have. Called after family::read_spec.
void read_pooling(hparam_reader& from, std::optional<pooling_kind> chosen, model_spec& spec);

/// Sets the window of layers: as the file's pattern says; without one, in each group of `period` layers all
/// but the last have a window.
void set_windows(hparam_reader& from, model_spec& spec, std::uint32_t window, std::uint32_t period);

/// The rotation of layers with a window: a base of their own if the file has one (key rope.freq_base_swa,
/// else `base`, 0 = that of other layers), and with `unscaled` without the others' scaling. What is then
/// their own, an operator's overrides leave.
void set_window_rotation(hparam_reader& from, model_spec& spec, double base, bool unscaled);

/// Reads recurrent_spec from the keys that delta nets and Mamba-2 have in common (ssm.*). `of_delta`: heads
/// of keys and values have ssm.state_size values; else ssm.inner_size is ssm.time_step_rank heads of values.
void read_ssm_keys(hparam_reader& from, model_spec& spec, bool of_delta);

/// The layer has this mixer in the place of attention, and no heads.
void set_mixer(layer_spec& layer, mixer_kind kind) noexcept;

/// At least one layer attends: what is shared of sequences is found by pages of keys and values.
void require_attention(hparam_reader& from, const model_spec& spec);
/// Every layer has a feed-forward.
void require_feed_forward(hparam_reader& from, const model_spec& spec);

/// Refuses models whose heads rotate by several positions (those of images).
void refuse_sections(hparam_reader& from);
/// The sections of heads that rotate by three positions, for all layers that rotate. A file without them
/// rotates by one, unless they are `required`.
void read_sections(hparam_reader& from, model_spec& spec, rope_axes axes, bool required);
/// model_spec::deepstack_layers.
void read_deepstack(hparam_reader& from, model_spec& spec);

/// Of all layers. Where neighbours are rotated, converters have moved the rows of Q and K: a family for which
/// they have not clears model_spec::regrouped_heads.
void set_pairing(model_spec& spec, rope_pairing pairing);

extern const family llama_family;
extern const family qwen2_family;
extern const family qwen3_family;
extern const family qwen2vl_family;
extern const family qwen3vl_family;
extern const family qwen3vlmoe_family;
extern const family phi3_family;
extern const family gpt_oss_family;
extern const family olmo2_family;
extern const family exaone4_family;
extern const family granite_family;
extern const family granitemoe_family;
extern const family smollm3_family;
extern const family seed_oss_family;
extern const family internlm2_family;
extern const family ernie4_5_family;
extern const family ernie4_5_moe_family;
extern const family mistral3_family;
extern const family starcoder2_family;
extern const family qwen3moe_family;
extern const family qwen2moe_family;
extern const family gemma2_family;
extern const family gemma3_family;
extern const family gemma4_family;
extern const family command_r_family;
extern const family cohere2_family;
extern const family glm4_family;
extern const family glm4moe_family;
extern const family deepseek2_family;
extern const family qwen35_family;
extern const family qwen35moe_family;
extern const family qwen3next_family;
extern const family lfm2_family;
extern const family lfm2moe_family;
extern const family granitehybrid_family;
extern const family nemotron_h_family;
extern const family nemotron_h_moe_family;
extern const family bert_family;
extern const family bitnet_158_family;
extern const family bitnet_25_family;
extern const family bitnet_family;

}  // namespace orcd::engine
