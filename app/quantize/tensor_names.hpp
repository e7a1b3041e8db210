// The names of tensors: those of trainers' files, their order in a manifest, and those of GGUF. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

namespace orcd::app {

/// In the order of a manifest: before the layers, then within each.
enum class tensor_role : std::uint8_t {
  token_embd,
  output,
  output_norm,
  attn_norm,
  attn_sub_norm,
  attn_k,
  attn_v,
  attn_q,
  attn_output,
  ffn_norm,
  ffn_gate,
  ffn_up,
  ffn_sub_norm,
  ffn_down
};

struct tensor_name {
  tensor_role role = tensor_role::token_embd;
  std::uint32_t layer = 0;  ///< 0 for what is in no layer
  bool bias = false;

  [[nodiscard]] bool in_layer() const noexcept { return role > tensor_role::output_norm; }
  [[nodiscard]] auto order() const noexcept {
    return std::tuple(in_layer() ? std::uint64_t{layer} + 1 : 0, role, bias);
  }
};

[[nodiscard]] bool is_norm(tensor_role role) noexcept;
/// The linear layers, whose matrices become ternary.
[[nodiscard]] bool is_projection(tensor_role role) noexcept;

/// Of "model.layers.3.self_attn.q_proj.weight"; nullopt when it is no name of a supported model.
[[nodiscard]] std::optional<tensor_name> parse_tensor_name(std::string_view name) noexcept;

/// What a manifest leaves out: scales, frequencies that follow from theta.
[[nodiscard]] bool is_left_out(std::string_view name) noexcept;

/// "blk.3.attn_q.weight".
[[nodiscard]] std::string gguf_name(const tensor_name& name);

/// The name of one half of a target of an adapter, without what trainers put in front:
/// "model.layers.3.self_attn.q_proj".
[[nodiscard]] std::string lora_target_name(std::uint32_t layer, std::uint32_t target);
[[nodiscard]] tensor_role lora_target_role(std::uint32_t target) noexcept;

}  // namespace orcd::app
