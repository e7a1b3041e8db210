// What families with other mixers than attention read in the same way, and what their tensors may hold.
#include "engine/model/mixers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/model/family.hpp"

namespace orcd::engine {
namespace {

using limits = hparam_limits;

/// `part` must divide `whole`.
void check_division(hparam_reader& from, const char* part_key, std::uint32_t part, const char* whole_key,
                    std::uint32_t whole) {
  if (whole % part == 0) return;
  from.problems().add("key '" + from.full(part_key) + "' is " + std::to_string(part) + "; it must divide '" +
                      whole_key + "', " + std::to_string(whole));
}

float value_at(const tensor_view& tensor, std::uint64_t index) {
  float value = 0.0F;
  std::memcpy(&value, tensor.data + index * sizeof(float), sizeof(float));
  return value;
}

/// The first value that is not as it should be.
template <class Good>
void check_values(const tensor_view& tensor, const char* wanted, problem_list& problems, const Good& good) {
  if (!tensor || tensor.type != ggml_type::f32) return;
  for (std::uint64_t i = 0; i < tensor.elements(); ++i) {
    const float value = value_at(tensor, i);
    if (good(value)) continue;
    problems.add("tensor " + in_quotes(tensor.name) + " has the value " + std::to_string(value) +
                 " at index " + std::to_string(i) + "; it must be " + wanted);
    return;
  }
}

}  // namespace

void set_mixer(layer_spec& layer, mixer_kind kind) noexcept {
  layer.mixer = kind;
  layer.heads = 0;
  layer.kv_heads = 0;
  layer.rope.dims = 0;
}

void require_attention(hparam_reader& from, const model_spec& spec) {
  const auto attends = [](const layer_spec& layer) { return layer.mixer == mixer_kind::attention; };
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (!attends(spec.layers[i]) || spec.layers[i].heads > 0) continue;
    from.problems().add("layer " + std::to_string(i) + " has key-value heads, but no heads");
  }
  if (std::any_of(spec.layers.begin(), spec.layers.end(), attends)) return;
  from.problems().add("no layer has attention, which is not supported");
}

void require_feed_forward(hparam_reader& from, const model_spec& spec) {
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (spec.layers[i].ffn_size == 0)
      from.problems().add("layer " + std::to_string(i) + " has a feed-forward of 0 values");
  }
}

void read_ssm_keys(hparam_reader& from, model_spec& spec, bool of_delta) {
  recurrent_spec& of = spec.recurrence;
  of.conv_kernel = from.count("ssm.conv_kernel", 1, conv_kernel_max);
  const char* const eps_key = from.has("attention.layer_norm_rms_epsilon")
                                  ? "attention.layer_norm_rms_epsilon"
                                  : "attention.layer_norm_epsilon";
  of.norm_eps = from.number(eps_key, 1e-15, 1.0, 1e-5);
  of.key_length = from.count("ssm.state_size", 1, limits::head_dim);
  of.key_heads = from.count("ssm.group_count", 1, limits::heads);
  of.value_heads = from.count("ssm.time_step_rank", 1, limits::heads);
  const std::uint32_t inner = from.count("ssm.inner_size", 1, limits::embedding);
  check_division(from, "ssm.group_count", of.key_heads, "ssm.time_step_rank", of.value_heads);
  if (of_delta) {
    of.value_length = of.key_length;
    if (inner != of.values()) {
      from.problems().add("key '" + from.full("ssm.inner_size") + "' is " + std::to_string(inner) +
                          "; ssm.time_step_rank " + std::to_string(of.value_heads) +
                          " times ssm.state_size " + std::to_string(of.key_length) + " makes it " +
                          std::to_string(of.values()));
    }
    of.norm_groups = of.value_heads;
    return;
  }
  check_division(from, "ssm.time_step_rank", of.value_heads, "ssm.inner_size", inner);
  of.value_length = std::max(1U, inner / of.value_heads);
  of.norm_groups = of.key_heads;
  of.own_norm_weights = true;
}

void check_mixers(const model_weights& weights, problem_list& problems) {
  const auto finite = [](float v) { return std::isfinite(v); };
  for (const layer_weights& layer : weights.layers) {
    check_values(layer.decay_rate, "finite and at most 0", problems,
                 [](float v) { return std::isfinite(v) && v <= 0.0F; });
    for (const tensor_view* tensor :
         {&layer.decay_bias, &layer.skip, &layer.conv, &layer.conv_bias, &layer.mix_norm})
      check_values(*tensor, "finite", problems, finite);
  }
}

}  // namespace orcd::engine
