#include "engine/media/tower_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/model/hparams.hpp"

namespace orcd::engine {
namespace {

/// A kernel of a convolution is a matrix whose columns are its first three extents; a vector may be told as a
/// column.
void flatten(tensor_view& of, std::uint64_t rows) {
  if (of.extents[3] > 1 || of.dims == 4) {
    of.extents = {of.extents[0] * of.extents[1] * of.extents[2], of.extents[3], 1, 1};
  } else if (rows == 0 && of.extents[0] == 1) {
    of.extents = {of.extents[1], 1, of.extents[2], 1};
  }
}

std::string shape_of(const tensor_view& of) {
  std::string out = std::to_string(of.extents[0]);
  for (std::uint32_t i = 1; i < of.dims; ++i) out += " x " + std::to_string(of.extents.at(i));
  return out;
}

/// Older files call the second matrix of the feed-forward the first: their ffn_down has the tower's width as
/// its input.
bool has_swapped_names(const gguf_file& file, const std::string& layer, const tower_spec& spec) {
  const tensor_view* const down = file.find_tensor(layer + "ffn_down.weight");
  return down != nullptr && spec.width != spec.ffn && down->extents[0] == spec.width &&
         down->extents[1] == spec.ffn;
}

}  // namespace

const tensor_view* tower_binder::find(const std::string& name, bool required) {
  const tensor_view* const found = file_.find_tensor(name);
  if (found == nullptr && required) problems_.add("tensor " + in_quotes(name) + " is missing");
  return found;
}

void tower_binder::check(const tensor_view& bound, const tensor_view& found, const std::string& name,
                         std::uint64_t cols, std::uint64_t rows) {
  const bool fits = bound.extents[0] == cols && bound.extents[1] == std::max<std::uint64_t>(rows, 1) &&
                    bound.extents[2] == 1 && bound.extents[3] == 1;
  if (!fits) {
    problems_.add("tensor " + in_quotes(name) + " has " + shape_of(found) + " values; it must have " +
                  std::to_string(cols) + (rows == 0 ? "" : " x " + std::to_string(rows)));
  }
  const bool vector = rows == 0;
  const bool known = bound.type == ggml_type::f32 ||
                     (!vector && (bound.type == ggml_type::f16 || bound.type == ggml_type::bf16 ||
                                  bound.type == ggml_type::q8_0));
  if (known) return;
  problems_.add("tensor " + in_quotes(name) + " has type " + std::string(traits_of(bound.type).name) +
                (vector ? "; it must be F32" : "; it must be F32, F16, BF16 or Q8_0"));
}

void tower_binder::bind(tensor_view& to, const std::string& name, std::uint64_t cols, std::uint64_t rows,
                        bool required) {
  const tensor_view* const found = find(name, required);
  if (found == nullptr) return;
  to = *found;
  flatten(to, rows);
  check(to, *found, name, cols, rows);
}

void tower_binder::bind_kernel(tensor_view& to, const std::string& name, std::uint64_t values,
                               std::uint64_t channels, std::uint64_t rows) {
  const tensor_view* const found = find(name, true);
  if (found == nullptr) return;
  to = *found;
  if (found->extents[0] == values && found->extents[1] == channels)
    to.extents = {values * channels, found->extents[2], found->extents[3], 1};
  check(to, *found, name, values * channels, rows);
}

void tower_binder::bind_range(std::optional<value_range>& to, const std::string& name) {
  tensor_view low, high;
  bind(low, name + "_min", 1, 0, false);
  bind(high, name + "_max", 1, 0, false);
  if (!low && !high) return;
  to.emplace();
  for (const auto& [tensor, value] : {std::pair{&low, &to->low}, std::pair{&high, &to->high}})
    if (*tensor && tensor->type == ggml_type::f32) std::memcpy(value, tensor->data, sizeof *value);
  if (to->low <= to->high) return;
  problems_.add("tensor " + in_quotes(name + "_min") + " has the value " + std::to_string(to->low) +
                "; it must be a number that is not above the one of " + in_quotes(name + "_max") + ", " +
                std::to_string(to->high));
}

void bind_tower_merger(const tower_spec& spec, tower_binder& bind, const std::string& first,
                       const std::string& second, tower_merger& to, std::uint64_t inner) {
  const std::uint64_t joined = spec.reduces ? spec.width : spec.joined_width();
  if (inner == 0) inner = joined;
  bind.bind(to.first, first + ".weight", joined, inner);
  bind.bind(to.first_bias, first + ".bias", inner, 0, false);
  bind.bind(to.second, second + ".weight", inner, spec.out_width);
  bind.bind(to.second_bias, second + ".bias", spec.out_width, 0, false);
}

void bind_tower_layers(std::string_view prefix, const gguf_file& file, tower_spec& spec, tower_binder& bind,
                       tower_weights& weights) {
  const bool swapped = has_swapped_names(file, std::string(prefix) + "0.", spec);
  const std::uint64_t w = spec.width;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    tower_layer& layer = weights.layers[i];
    const std::string at = std::string(prefix) + std::to_string(i) + ".";
    const auto matrix = [&](tower_matrix& to, const char* name, std::uint64_t cols, std::uint64_t rows) {
      bind.bind(to.weight, at + name + ".weight", cols, rows);
      bind.bind(to.bias, at + name + ".bias", rows, 0, false);
      bind.bind_range(to.inputs, at + name + ".input");
      bind.bind_range(to.outputs, at + name + ".output");
      spec.clips = spec.clips || to.inputs;
    };
    const auto norm = [&](tensor_view& weight, tensor_view& bias, const char* name) {
      bind.bind(weight, at + name + ".weight", w, 0);
      if (spec.norm == norm_kind::layer) bind.bind(bias, at + name + ".bias", w, 0);
    };
    norm(layer.norm_1, layer.norm_1_bias, "ln1");
    norm(layer.norm_2, layer.norm_2_bias, "ln2");
    if (spec.post_norms) {
      bind.bind(layer.post_norm_1, at + "attn_post_norm.weight", w, 0);
      bind.bind(layer.post_norm_2, at + "ffn_post_norm.weight", w, 0);
    }
    if (file.find_tensor(at + "attn_qkv.weight") != nullptr) {
      matrix(layer.qkv, "attn_qkv", w, 3 * w);
    } else {
      matrix(layer.q, "attn_q", w, w);
      matrix(layer.k, "attn_k", w, w);
      matrix(layer.v, "attn_v", w, w);
    }
    if (spec.head_norms) {
      bind.bind(layer.q_norm, at + "attn_q_norm.weight", spec.head_width(), 0);
      bind.bind(layer.k_norm, at + "attn_k_norm.weight", spec.head_width(), 0);
    }
    matrix(layer.out, "attn_out", w, w);
    if (has_gate(spec.activation)) matrix(layer.gate, "ffn_gate", w, spec.ffn);
    matrix(layer.up, swapped ? "ffn_down" : "ffn_up", w, spec.ffn);
    matrix(layer.down, swapped ? "ffn_up" : "ffn_down", spec.ffn, w);
    if (layer.deepstack) {
      const std::string name = "v.deepstack." + std::to_string(i) + ".";
      bind.bind(layer.deepstack->norm, name + "norm.weight", spec.joined_width(), 0);
      bind.bind(layer.deepstack->norm_bias, name + "norm.bias", spec.joined_width(), 0);
      bind_tower_merger(spec, bind, name + "fc1", name + "fc2", *layer.deepstack);
    }
  }
}

void bind_sound_tower(const gguf_file& file, tower_spec& spec, problem_list& problems,
                      tower_weights& weights) {
  constexpr std::uint64_t kernel = 3;
  tower_binder bind(file, problems);
  const std::uint64_t w = spec.width;
  const std::string first = "mm.a.mlp.1";
  if (const tensor_view* const found = file.find_tensor(first + ".weight"); found != nullptr) {
    spec.inner_width =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(found->extents[1], 1, hparam_limits::embedding));
  }
  bind.bind_kernel(weights.conv_1, "a.conv1d.1.weight", kernel, spec.sound->bins, w);
  bind.bind(weights.conv_1_bias, "a.conv1d.1.bias", w, 0);
  bind.bind_kernel(weights.conv_2, "a.conv1d.2.weight", kernel, w, w);
  bind.bind(weights.conv_2_bias, "a.conv1d.2.bias", w, 0);
  bind.bind(weights.positions, "a.position_embd.weight", w, spec.patches_max());
  bind.bind(weights.post_norm, "a.post_ln.weight", w, 0);
  bind.bind(weights.post_norm_bias, "a.post_ln.bias", w, 0);
  bind_tower_merger(spec, bind, first, "mm.a.mlp.2", weights.merger, spec.inner_width);
  bind_tower_layers("a.blk.", file, spec, bind, weights);
}

}  // namespace orcd::engine
