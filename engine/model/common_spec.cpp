// The hyperparameters that every family reads in the same way.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "engine/model/family.hpp"
#include "engine/model/rope_config.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;

/// `least` key-value heads: 0 is for layers without attention.
void read_heads(hparam_reader& from, model_spec& spec, std::uint32_t least) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const auto heads = from.per_layer("attention.head_count", layers, least, limits::heads);
  const auto kv = from.has("attention.head_count_kv")
                      ? from.per_layer("attention.head_count_kv", layers, least, limits::heads)
                      : heads;
  for (std::uint32_t i = 0; i < layers; ++i) {
    spec.layers[i].heads = heads[i];
    spec.layers[i].kv_heads = kv[i];
    spec.layers[i].kv_source = i;
    if (kv[i] == 0 || (heads[i] > 0 && heads[i] % kv[i] == 0)) continue;
    from.problems().add("layer " + std::to_string(i) + " has " + std::to_string(heads[i]) + " heads on " +
                        std::to_string(kv[i]) +
                        " key-value heads; the first must be a multiple of the second");
  }
}

void read_head_sizes(hparam_reader& from, model_spec& spec) {
  const auto attends =
      std::find_if(spec.layers.begin(), spec.layers.end(), [](const auto& layer) { return layer.heads > 0; });
  const std::uint32_t heads = attends == spec.layers.end() ? 1 : attends->heads;
  const bool given = from.has("attention.key_length");
  if (!given && spec.embedding % heads != 0) {
    from.problems().add("key '" + from.full("attention.key_length") + "' is absent and embedding_length " +
                        std::to_string(spec.embedding) + " is not a multiple of head_count " +
                        std::to_string(heads));
  }
  const std::uint32_t fallback = std::max(1U, spec.embedding / heads);
  const std::uint32_t key = from.count("attention.key_length", 2, limits::head_dim, fallback);
  const std::uint32_t value = from.count("attention.value_length", 1, limits::head_dim, fallback);
  for (layer_spec& layer : spec.layers) {
    layer.key_length = key;
    layer.value_length = value;
  }
  for (const auto& [size, name] : {std::pair{key, "key"}, std::pair{value, "value"}}) {
    if (size <= limits::head_dim && size % 2 == 0) continue;
    from.problems().add(std::string("the head dimension of ") + name + "s is " + std::to_string(size) +
                        "; it must be even and at most " + std::to_string(limits::head_dim));
  }
  const double natural = 1.0 / std::sqrt(static_cast<double>(std::max(1U, key)));
  const double scale = from.number("attention.scale", 0.0, 1e3, 0.0);
  spec.attention_scale = scale > 0.0 ? scale : natural;
}

/// `least` of the width: 0 is for layers without a feed-forward.
void read_feed_forward(hparam_reader& from, model_spec& spec, std::uint32_t least) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  spec.experts = from.count("expert_count", 0, limits::experts, 0);
  if (spec.experts > 0) spec.experts_used = from.count("expert_used_count", 1, spec.experts);
  const bool own_size = spec.experts > 0 && from.has("expert_feed_forward_length");
  const auto sizes = from.per_layer(own_size ? "expert_feed_forward_length" : "feed_forward_length", layers,
                                    least, limits::ffn);
  for (std::uint32_t i = 0; i < layers; ++i) {
    spec.layers[i].ffn_size = sizes[i];
    spec.layers[i].ffn = spec.experts > 0 ? ffn_kind::moe : ffn_kind::dense;
  }
}

}  // namespace

void read_common_spec(hparam_reader& from, model_spec& spec, bool recurrent) {
  const std::uint32_t least = recurrent ? 0 : 1;
  spec.context_length = from.count("context_length", 1, limits::context);
  spec.embedding = from.count("embedding_length", 1, limits::embedding);
  spec.rms_eps = from.number("attention.layer_norm_rms_epsilon", 1e-15, 1.0, 1e-5);
  spec.causal = from.flag("attention.causal", true);
  read_heads(from, spec, least);
  read_head_sizes(from, spec);
  read_feed_forward(from, spec, least);
  const rope_spec rope = read_rope(from, spec);
  for (layer_spec& layer : spec.layers) layer.rope = rope;
}

void refuse_unsupported(hparam_reader& from) {
  const auto refuse = [&](const char* key) {
    from.problems().add("key '" + from.full(key) + "' is set; it is not supported for this architecture");
  };
  for (const char* key : {"final_logit_softcapping", "attn_logit_softcapping", "logit_scale",
                          "embedding_scale", "residual_scale", "attention.temperature_scale",
                          "rope.scaling.yarn_log_multiplier", "expert_weights_scale"}) {
    if (from.was_read(key)) continue;
    // 0 is "none" to converters, and a factor of 1 changes nothing.
    const double value = from.number(key, -1e9, 1e9, 0.0);
    if (value != 0.0 && value != 1.0) refuse(key);
  }
  for (const char* key : {"leading_dense_block_count", "expert_shared_count",
                          "expert_shared_feed_forward_length", "nextn_predict_layers"}) {
    if (!from.was_read(key) && from.count(key, 0, limits::ffn, 0) != 0) refuse(key);
  }
  for (const char* key : {"interleave_moe_layer_step", "expert_group_count"}) {
    if (!from.was_read(key) && from.count(key, 0, limits::experts, 1) > 1) refuse(key);
  }
}

void read_moe(hparam_reader& from, model_spec& spec, std::uint32_t step) {
  const auto layers = static_cast<std::uint32_t>(spec.layers.size());
  const std::uint32_t dense = from.count("leading_dense_block_count", 0, layers, 0);
  const std::uint32_t shared = from.count("expert_shared_count", 0, limits::experts, 0);
  if (dense > 0 || step > 1) {
    const auto sizes = from.per_layer("feed_forward_length", layers, 1, limits::ffn);
    for (std::uint32_t i = 0; i < layers; ++i) {
      if (i >= dense && (i + 1) % step == 0) continue;
      spec.layers[i].ffn = ffn_kind::dense;
      spec.layers[i].ffn_size = sizes[i];
    }
  }
  const bool given = from.has("expert_shared_feed_forward_length");
  const std::uint32_t size = given ? from.count("expert_shared_feed_forward_length", 0, limits::ffn) : 0;
  for (layer_spec& layer : spec.layers) {
    if (layer.ffn != ffn_kind::moe) continue;
    const std::uint64_t width = given ? size : std::uint64_t{shared} * layer.ffn_size;
    if (width > limits::ffn) {
      from.problems().add("the shared experts of a layer are " + std::to_string(width) +
                          " wide; the limit is " + std::to_string(limits::ffn));
      return;
    }
    layer.shared_size = static_cast<std::uint32_t>(width);
  }
}

void read_expert_groups(hparam_reader& from, model_spec& spec, group_ranking ranking) {
  const std::uint32_t groups = from.count("expert_group_count", 0, limits::experts, 1);
  if (groups <= 1) {
    from.count("expert_group_used_count", 0, limits::experts, 1);
    return;
  }
  const bool said = from.has("expert_group_used_count");
  const std::uint32_t used = from.count("expert_group_used_count", 1, groups);
  const std::uint32_t size = spec.experts / groups;
  if (spec.experts % groups != 0 || size < 2) {
    from.problems().add("key '" + from.full("expert_group_count") + "' is " + std::to_string(groups) +
                        "; it must part " + std::to_string(spec.experts) +
                        " experts into equal groups of two at least");
  } else if (said && used * size < spec.experts_used) {
    from.problems().add("key '" + from.full("expert_group_used_count") + "' is " + std::to_string(used) +
                        "; so many groups of " + std::to_string(size) + " experts have fewer than the " +
                        std::to_string(spec.experts_used) + " of a token");
  }
  spec.expert_groups = groups;
  spec.expert_groups_used = used;
  spec.expert_group_ranking = ranking;
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

void set_window_rotation(hparam_reader& from, model_spec& spec, double base, bool unscaled) {
  if (from.has("rope.freq_base_swa")) base = from.number("rope.freq_base_swa", 1.001, 1e12, 10'000.0);
  for (layer_spec& layer : spec.layers) {
    if (layer.window == 0) continue;
    layer.rope.fixed = base != 0.0 || unscaled;
    if (base != 0.0) layer.rope.base = base;
    if (!unscaled) continue;
    layer.rope.scaling = rope_scaling::none;
    layer.rope.factor = 1.0;
  }
}

void refuse_sections(hparam_reader& from) {
  constexpr std::string_view key = "rope.dimension_sections";
  const auto sections = from.file().get_integers(from.full(key));
  if (sections && std::all_of(sections->begin(), sections->end(), [](std::int64_t v) { return v == 0; }))
    return;
  from.problems().add("key '" + from.full(key) + "' is set; rotation by several positions is not supported");
}

void read_sections(hparam_reader& from, model_spec& spec, rope_axes axes, bool required) {
  constexpr std::string_view key = "rope.dimension_sections";
  if (!required && !from.has(key)) return;
  const auto list = from.file().get_integers(from.full(key));
  const auto rotates = std::find_if(spec.layers.begin(), spec.layers.end(),
                                    [](const layer_spec& layer) { return layer.rope.dims > 0; });
  const std::int64_t pairs = rotates == spec.layers.end() ? 0 : rotates->rope.dims / 2;
  const bool numbers = list && list->size() >= 3 && list->size() <= 4 &&
                       std::all_of(list->begin(), list->end(), [&](auto v) { return v >= 0 && v <= pairs; });
  const bool three = numbers && (list->size() == 3 || list->back() == 0);
  if (!three || std::accumulate(list->begin(), list->end(), std::int64_t{0}) != pairs) {
    return from.problems().add(
        "key '" + from.full(key) +
        "' must be three numbers, with a 0 behind them or without, that add up to the " +
        std::to_string(pairs) + " pairs of a head that rotate");
  }
  for (layer_spec& layer : spec.layers) {
    layer.rope.axes = axes;
    for (std::size_t i = 0; i < 3; ++i) layer.rope.sections[i] = static_cast<std::uint32_t>((*list)[i]);
  }
}

void read_deepstack(hparam_reader& from, model_spec& spec) {
  spec.deepstack_layers =
      from.count("n_deepstack_layers", 0, static_cast<std::uint32_t>(spec.layers.size()), 0);
}

void set_pairing(model_spec& spec, rope_pairing pairing) {
  for (layer_spec& layer : spec.layers) layer.rope.pairing = pairing;
  spec.regrouped_heads = pairing == rope_pairing::interleaved;
}

std::uint64_t model_spec::kv_bytes_per_token(kv_types types) const noexcept {
  std::uint64_t bytes = 0;
  for (const layer_spec& layer : layers) {
    bytes += layer.cached_heads() * (kv_row_bytes(types.keys, layer.key_length) +
                                     kv_row_bytes(types.values, cached_value_length(layer)));
  }
  return bytes;
}

bool model_spec::is_recurrent() const noexcept {
  return std::any_of(layers.begin(), layers.end(),
                     [](const layer_spec& layer) { return orcd::engine::is_recurrent(layer.mixer); });
}

std::uint32_t model_spec::key_length_max() const noexcept {
  std::uint32_t widest = 0;
  for (const layer_spec& layer : layers) widest = std::max(widest, layer.key_length);
  return widest;
}

}  // namespace orcd::engine
