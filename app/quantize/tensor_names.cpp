#include "app/quantize/tensor_names.hpp"

#include <array>
#include <charconv>

namespace orcd::app {
namespace {

using enum tensor_role;

struct role_name {
  std::string_view name;
  tensor_role role;
};

// The second names of the sub-norms are those of the first BitNet models.
constexpr std::array in_layers{role_name{"input_layernorm", attn_norm},
                               role_name{"self_attn.attn_sub_norm", attn_sub_norm},
                               role_name{"self_attn.inner_attn_ln", attn_sub_norm},
                               role_name{"self_attn.k_proj", attn_k},
                               role_name{"self_attn.v_proj", attn_v},
                               role_name{"self_attn.q_proj", attn_q},
                               role_name{"self_attn.o_proj", attn_output},
                               role_name{"post_attention_layernorm", ffn_norm},
                               role_name{"mlp.gate_proj", ffn_gate},
                               role_name{"mlp.up_proj", ffn_up},
                               role_name{"mlp.ffn_sub_norm", ffn_sub_norm},
                               role_name{"mlp.ffn_layernorm", ffn_sub_norm},
                               role_name{"mlp.down_proj", ffn_down}};

constexpr std::array<std::string_view, 14> gguf_names{
    "token_embd", "output",      "output_norm", "attn_norm", "attn_sub_norm", "attn_k",       "attn_v",
    "attn_q",     "attn_output", "ffn_norm",    "ffn_gate",  "ffn_up",        "ffn_sub_norm", "ffn_down"};

constexpr std::array<std::string_view, 7> lora_names{
    "self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj", "self_attn.o_proj",
    "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
constexpr std::array<tensor_role, 7> lora_roles{attn_k,   attn_v, attn_q,  attn_output,
                                                ffn_gate, ffn_up, ffn_down};

bool take(std::string_view& text, std::string_view prefix) noexcept {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// A number without leading zeros and its dot.
std::optional<std::uint32_t> take_layer(std::string_view& text) noexcept {
  std::uint32_t layer = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (code != std::errc{} || (text.front() == '0' && end != text.data() + 1)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return take(text, ".") ? std::optional(layer) : std::nullopt;
}

}  // namespace

bool is_norm(tensor_role role) noexcept {
  return role == output_norm || role == attn_norm || role == attn_sub_norm || role == ffn_norm ||
         role == ffn_sub_norm;
}

bool is_projection(tensor_role role) noexcept {
  return !is_norm(role) && role != token_embd && role != output;
}

std::optional<tensor_name> parse_tensor_name(std::string_view name) noexcept {
  if (name == "model.embed_tokens.weight") return tensor_name{token_embd, 0, false};
  if (name == "lm_head.weight") return tensor_name{output, 0, false};
  if (name == "model.norm.weight") return tensor_name{output_norm, 0, false};
  if (!take(name, "model.layers.")) return std::nullopt;
  const auto layer = take_layer(name);
  if (!layer) return std::nullopt;
  for (const role_name& row : in_layers) {
    std::string_view rest = name;
    if (!take(rest, row.name)) continue;
    if (rest == ".weight") return tensor_name{row.role, *layer, false};
    if (rest == ".bias" && is_projection(row.role)) return tensor_name{row.role, *layer, true};
  }
  return std::nullopt;
}

bool is_left_out(std::string_view name) noexcept {
  return name.find("rotary_emb") != name.npos || name.find("inv_freq") != name.npos ||
         name.ends_with("_scale");
}

std::string gguf_name(const tensor_name& name) {
  std::string out = name.in_layer() ? "blk." + std::to_string(name.layer) + "." : "";
  out += gguf_names[static_cast<std::size_t>(name.role)];
  return out + (name.bias ? ".bias" : ".weight");
}

std::string lora_target_name(std::uint32_t layer, std::uint32_t target) {
  return "model.layers." + std::to_string(layer) + "." + std::string(lora_names.at(target));
}

tensor_role lora_target_role(std::uint32_t target) noexcept {
  return lora_roles[target];
}

}  // namespace orcd::app
