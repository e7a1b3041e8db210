// The hyperparameters that every family reads in the same way.
#include <algorithm>
#include <cmath>

#include "engine/model/family.hpp"
#include "engine/model/rope_config.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;

void read_heads(hparam_reader& from, model_spec& spec) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const auto heads = from.per_layer("attention.head_count", layers, 1, limits::heads);
  const auto kv = from.has("attention.head_count_kv")
                      ? from.per_layer("attention.head_count_kv", layers, 1, limits::heads)
                      : heads;
  for (std::uint32_t i = 0; i < layers; ++i) {
    spec.layers[i].heads = heads[i];
    spec.layers[i].kv_heads = kv[i];
    if (heads[i] % kv[i] == 0) continue;
    from.problems().add("layer " + std::to_string(i) + " has " + std::to_string(heads[i]) + " heads on " +
                        std::to_string(kv[i]) +
                        " key-value heads; the first must be a multiple of the second");
  }
}

void read_head_sizes(hparam_reader& from, model_spec& spec) {
  const std::uint32_t heads = spec.layers.front().heads;
  const bool given = from.has("attention.key_length");
  if (!given && spec.embedding % heads != 0) {
    from.problems().add("key '" + from.full("attention.key_length") + "' is absent and embedding_length " +
                        std::to_string(spec.embedding) + " is not a multiple of head_count " +
                        std::to_string(heads));
  }
  const std::uint32_t fallback = std::max(1U, spec.embedding / heads);
  spec.key_length = from.count("attention.key_length", 2, limits::head_dim, fallback);
  spec.value_length = from.count("attention.value_length", 1, limits::head_dim, fallback);
  for (const auto& [size, name] :
       {std::pair{spec.key_length, "key"}, std::pair{spec.value_length, "value"}}) {
    if (size <= limits::head_dim && size % 2 == 0) continue;
    from.problems().add(std::string("the head dimension of ") + name + "s is " + std::to_string(size) +
                        "; it must be even and at most " + std::to_string(limits::head_dim));
  }
  const double natural = 1.0 / std::sqrt(static_cast<double>(std::max(1U, spec.key_length)));
  const double scale = from.number("attention.scale", 0.0, 1e3, 0.0);
  spec.attention_scale = scale > 0.0 ? scale : natural;
}

void read_feed_forward(hparam_reader& from, model_spec& spec) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  spec.experts = from.count("expert_count", 0, limits::experts, 0);
  if (spec.experts > 0) spec.experts_used = from.count("expert_used_count", 1, spec.experts);
  const bool own_size = spec.experts > 0 && from.has("expert_feed_forward_length");
  const auto sizes =
      from.per_layer(own_size ? "expert_feed_forward_length" : "feed_forward_length", layers, 1, limits::ffn);
  for (std::uint32_t i = 0; i < layers; ++i) {
    spec.layers[i].ffn_size = sizes[i];
    spec.layers[i].ffn = spec.experts > 0 ? ffn_kind::moe : ffn_kind::dense;
  }
}

/// Keys that change the forward pass in ways that no family here implements.
void refuse_unsupported(hparam_reader& from) {
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping", "logit_scale"}) {
    if (from.number(key, -1e9, 1e9, 0.0) == 0.0) continue;
    from.problems().add("key '" + from.full(key) + "' is set; it is not supported for this architecture");
  }
  if (from.count("leading_dense_block_count", 0, limits::layers, 0) != 0 ||
      from.count("expert_shared_count", 0, limits::experts, 0) != 0) {
    from.problems().add("leading dense layers and shared experts are not supported for this architecture");
  }
}

}  // namespace

void read_common_spec(hparam_reader& from, model_spec& spec) {
  spec.context_length = from.count("context_length", 1, limits::context);
  spec.embedding = from.count("embedding_length", 1, limits::embedding);
  spec.rms_eps = from.number("attention.layer_norm_rms_epsilon", 1e-15, 1.0, 1e-5);
  spec.causal = from.flag("attention.causal", true);
  read_heads(from, spec);
  read_head_sizes(from, spec);
  read_feed_forward(from, spec);
  refuse_unsupported(from);
  const rope_spec rope = read_rope(from, spec);
  for (layer_spec& layer : spec.layers) layer.rope = rope;
}

void set_windows(hparam_reader& from, model_spec& spec, std::uint32_t window, std::uint32_t period) {
  constexpr std::string_view key = "attention.sliding_window_pattern";
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const gguf_value* value = from.file().find(from.full(key));
  if (value != nullptr && value->type == gguf_value_type::array) {
    const auto windowed = from.per_layer(key, layers, 0, 1);
    for (std::uint32_t i = 0; i < layers; ++i) spec.layers[i].window = windowed[i] != 0 ? window : 0;
    return;
  }
  if (value != nullptr) period = from.count(key, 1, limits::layers);
  for (std::uint32_t i = 0; i < layers; ++i) {
    spec.layers[i].window = i % period < period - 1 ? window : 0;
  }
}

void set_pairing(model_spec& spec, rope_pairing pairing) {
  for (layer_spec& layer : spec.layers) layer.rope.pairing = pairing;
}

std::uint64_t model_spec::kv_bytes_per_token(kv_types types) const noexcept {
  const std::uint64_t head = kv_row_bytes(types.keys, key_length) + kv_row_bytes(types.values, value_length);
  std::uint64_t bytes = 0;
  for (const layer_spec& layer : layers) bytes += layer.kv_heads * head;
  return bytes;
}

}  // namespace orcd::engine
