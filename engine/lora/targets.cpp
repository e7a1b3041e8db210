#include "engine/lora/targets.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/lora/adapter_error.hpp"

namespace orcd::engine {
namespace {

using w = layer_weights;

struct layer_matrix {
  lora_target target;
  tensor_view layer_weights::*role;
  std::string_view tensor;  ///< between "blk.N." and ".weight"
  std::string_view module;  ///< after "layers.N."
};

/// Files have one name for the fused gate and up and for up alone, and for the fused Q, K and V of attention
/// and of a delta net; a layer has one of the two. What a layer has instead of attention goes by three names.
constexpr std::array layer_matrices{
    layer_matrix{lora_target::attn_qkv, &w::attn_qkv, "attn_qkv", "self_attn.qkv_proj"},
    layer_matrix{lora_target::attn_q, &w::attn_q, "attn_q", "self_attn.q_proj"},
    layer_matrix{lora_target::attn_k, &w::attn_k, "attn_k", "self_attn.k_proj"},
    layer_matrix{lora_target::attn_v, &w::attn_v, "attn_v", "self_attn.v_proj"},
    layer_matrix{lora_target::attn_output, &w::attn_output, "attn_output", "self_attn.o_proj"},
    layer_matrix{lora_target::ffn_gate_up, &w::ffn_gate_up, "ffn_up", "mlp.gate_up_proj"},
    layer_matrix{lora_target::ffn_gate, &w::ffn_gate, "ffn_gate", "mlp.gate_proj"},
    layer_matrix{lora_target::ffn_up, &w::ffn_up, "ffn_up", "mlp.up_proj"},
    layer_matrix{lora_target::ffn_down, &w::ffn_down, "ffn_down", "mlp.down_proj"},
    layer_matrix{lora_target::mix_in, &w::mix_in, "attn_qkv", "linear_attn.in_proj_qkv"},
    layer_matrix{lora_target::mix_in, &w::mix_in, "ssm_in", "mamba.in_proj"},
    layer_matrix{lora_target::mix_in, &w::mix_in, "shortconv.in_proj", "conv.in_proj"},
    layer_matrix{lora_target::mix_gate, &w::mix_gate, "attn_gate", "linear_attn.in_proj_z"},
    layer_matrix{lora_target::mix_out, &w::mix_out, "ssm_out", "linear_attn.out_proj"},
    layer_matrix{lora_target::mix_out, &w::mix_out, "ssm_out", "mamba.out_proj"},
    layer_matrix{lora_target::mix_out, &w::mix_out, "shortconv.out_proj", "conv.out_proj"},
};

/// Of a matrix of layers: there is a row for each.
const layer_matrix* find_row(lora_target target) noexcept {
  return std::find_if(layer_matrices.begin(), layer_matrices.end(),
                      [target](const layer_matrix& m) { return m.target == target; });
}

/// A decimal number without a sign or leading zeros.
std::optional<std::uint32_t> number_of(std::string_view digits) {
  std::uint32_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, code] = std::from_chars(digits.data(), last, value);
  const bool padded = digits.size() > 1 && digits.front() == '0';
  if (digits.empty() || code != std::errc{} || end != last || padded) return std::nullopt;
  return value;
}

struct layer_name {
  std::uint32_t layer;
  std::string_view rest;
};

/// "3.REST" taken apart.
std::optional<layer_name> parse_layer_name(std::string_view text) {
  const auto dot = text.find('.');
  const auto layer = number_of(text.substr(0, dot));
  if (dot == std::string_view::npos || !layer) return std::nullopt;
  return layer_name{*layer, text.substr(dot + 1)};
}

std::string quoted(std::string_view kind, std::string_view name) {
  return std::string(kind) + " " + in_quotes(name);
}

/// What a layer has in the place of the matrix that it has not.
std::string_view instead_of(lora_target target, const layer_weights& layer, const layer_spec& spec) {
  using enum lora_target;
  if (spec.mixer != mixer_kind::attention && target <= attn_output) return ": it has no attention";
  if (spec.mixer == mixer_kind::attention && target >= mix_in) return ": it attends";
  if ((target == attn_k || target == attn_v) && spec.reads_other_cache)
    return ": it reads the keys and values of a layer before it";
  if (target == attn_v && spec.values_from_keys)
    return ": its values are its keys, and a pair beside those changes both";
  const bool of_attention = target == attn_q || target == attn_k || target == attn_v;
  if (of_attention && layer.attn_qkv) {
    return ": its query, key and value are one matrix, and adapters of the parts are not supported";
  }
  if ((target == ffn_gate || target == ffn_up) && layer.ffn_gate_up) {
    return ": its gate and up are one matrix, and adapters of the parts are not supported";
  }
  if ((target == attn_qkv && layer.attn_q) || (target == ffn_gate_up && layer.ffn_gate && layer.ffn_up)) {
    return ": its parts are matrices of their own, and adapters of the fused one are not supported";
  }
  if (layer.router) return ": it has experts, and adapters of those are not supported";
  return {};
}

/// Rows of `layer_matrices` by one of their names; the one that the layer has, if it has one.
result<pair_place> find_in_layer(const model& base, const layer_name& at,
                                 std::string_view layer_matrix::*names, const std::string& subject,
                                 std::string_view file) {
  if (at.layer >= base.weights.layers.size()) {
    return adapter_error(file, subject + " is of layer " + std::to_string(at.layer) + "; the model has " +
                                   std::to_string(base.weights.layers.size()) + " layers, counted from 0");
  }
  const layer_weights& layer = base.weights.layers[at.layer];
  const layer_matrix* named = nullptr;
  for (const layer_matrix& row : layer_matrices) {
    if (row.*names != at.rest) continue;
    if (layer.*row.role) return pair_place{at.layer, row.target};
    if (named == nullptr) named = &row;
  }
  if (named == nullptr) {
    return adapter_error(file, subject + " is of no matrix that an adapter can change here");
  }
  return adapter_error(file, subject + ": layer " + std::to_string(at.layer) +
                                 " of the model has no such matrix" +
                                 std::string(instead_of(named->target, layer, base.spec.layers[at.layer])));
}

result<pair_place> find_outside(const model& base, lora_target target, const std::string& subject,
                                std::string_view file) {
  const pair_place place{0, target};
  if (matrix_at(base, place) != nullptr) return place;
  return adapter_error(file, subject + ": the model has no such matrix");
}

error of_experts(std::string_view file, const std::string& subject) {
  return adapter_error(file, subject +
                                 " is of experts or their router, and adapters of those are not "
                                 "supported");
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return text.find(part) != std::string_view::npos; });
}

}  // namespace

std::string matrix_name(const pair_place& place) {
  if (place.target == lora_target::token_embd) return "token_embd";
  if (place.target == lora_target::output) return "output";
  const auto* const row = find_row(place.target);
  return "blk." + std::to_string(place.layer) + "." + std::string(row->tensor);
}

const tensor_view* matrix_at(const model& base, const pair_place& place) noexcept {
  const tensor_view* found = nullptr;
  if (place.target == lora_target::token_embd) {
    found = &base.weights.token_embd;
  } else if (place.target == lora_target::output) {
    if (!base.spec.pooling) found = &base.weights.output;
  } else if (place.layer < base.weights.layers.size()) {
    found = &(base.weights.layers[place.layer].*find_row(place.target)->role);
  }
  return found != nullptr && *found ? found : nullptr;
}

result<pair_place> place_of_tensor(const model& base, std::string_view name, std::string_view file) {
  const std::string subject = quoted("the pair of tensor", name);
  if (name == "token_embd.weight") return find_outside(base, lora_target::token_embd, subject, file);
  if (name == "output.weight") return find_outside(base, lora_target::output, subject, file);
  if (has_any(name, {"_exps.", "_shexp.", ".ffn_gate_inp"})) return of_experts(file, subject);
  constexpr std::string_view before = "blk.", behind = ".weight";
  std::optional<layer_name> at;
  if (name.size() > before.size() + behind.size() && name.starts_with(before) && name.ends_with(behind)) {
    at = parse_layer_name(name.substr(before.size(), name.size() - before.size() - behind.size()));
  }
  if (!at) return adapter_error(file, subject + " is of no matrix that an adapter can change here");
  return find_in_layer(base, *at, &layer_matrix::tensor, subject, file);
}

result<pair_place> place_of_module(const model& base, std::string_view module, std::string_view file) {
  const std::string subject = quoted("module", module);
  // Models without an output layer of their own have no "model." in front.
  std::string_view name = module;
  if (name.starts_with("model.")) name.remove_prefix(6);
  if (name == "embed_tokens") return find_outside(base, lora_target::token_embd, subject, file);
  if (name == "lm_head") return find_outside(base, lora_target::output, subject, file);
  if (has_any(name, {"experts", "block_sparse_moe", "router"})) return of_experts(file, subject);
  constexpr std::string_view before = "layers.";
  std::optional<layer_name> at;
  if (name.starts_with(before)) at = parse_layer_name(name.substr(before.size()));
  if (!at) return adapter_error(file, subject + " is none that an adapter can change here");
  return find_in_layer(base, *at, &layer_matrix::module, subject, file);
}

}  // namespace orcd::engine
