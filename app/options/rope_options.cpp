// The rows of the options that replace what the model file says about RoPE.
#include "app/options/option_table.hpp"

namespace orcd::app {
namespace {

using text_view = std::string_view;

/// A real number that replaces a RoPE parameter of the model file. `low` itself is allowed only when
/// `closed`.
option_row rope_real(std::string name, std::optional<double> engine::rope_overrides::*member, double low,
                     double high, bool closed, const std::string& text) {
  const auto range = (closed ? "" : "above ") + number_text(low) + " to " + number_text(high);
  return {"", std::move(name), "X", text + " (" + range + ", default: the model's)",
          [=](text_view value, options& out) -> requirement {
            const auto number = parse_real(value);
            const bool fits = number && *number <= high && (closed ? *number >= low : *number > low);
            if (!fits) return "must be a number, " + range;
            out.rope.*member = *number;
            return std::nullopt;
          }};
}

requirement assign_rope_scaling(text_view value, options& out) {
  if (value == "none") {
    out.rope.scaling = engine::rope_scaling::none;
  } else if (value == "linear") {
    out.rope.scaling = engine::rope_scaling::linear;
  } else if (value == "yarn") {
    out.rope.scaling = engine::rope_scaling::yarn;
  } else {
    return "must be one of none|linear|yarn";
  }
  return std::nullopt;
}

requirement assign_orig_ctx(text_view value, options& out) {
  constexpr std::uint64_t tokens_max = 1'048'576;
  const auto number = parse_unsigned(value);
  if (!number || *number < 1 || *number > tokens_max) return "must be an integer, 1 to 1048576 tokens";
  out.rope.original_context = static_cast<std::uint32_t>(*number);
  return std::nullopt;
}

requirement assign_round_dims(text_view value, options& out) {
  if (value != "true" && value != "false") return "must be true or false";
  out.rope.round_correction_dims = value == "true";
  return std::nullopt;
}

}  // namespace

std::vector<option_row> rope_rows() {
  using rope = engine::rope_overrides;
  return {
      {"", "rope-scaling", "none|linear|yarn",
       "How RoPE reaches past the trained context (default: the model's)", assign_rope_scaling},
      rope_real("rope-freq-base", &rope::freq_base, 0, 1e12, false, "RoPE base frequency"),
      rope_real("rope-freq-scale", &rope::freq_scale, 0, 16, false, "RoPE frequency scale, 1/factor"),
      rope_real("yarn-ext-factor", &rope::ext_factor, 0, 1, true, "YaRN extrapolation mix"),
      rope_real("yarn-attn-factor", &rope::attn_factor, 0, 16, false, "YaRN attention magnitude factor"),
      rope_real("yarn-beta-fast", &rope::beta_fast, 0, 1'024, false,
                "YaRN rotations above which nothing is scaled"),
      rope_real("yarn-beta-slow", &rope::beta_slow, 0, 1'024, false,
                "YaRN rotations below which all is scaled"),
      {"", "yarn-orig-ctx", "N", "YaRN original context (tokens, 1 to 1048576, default: the model's)",
       assign_orig_ctx},
      {"", "yarn-round-dims", "true|false",
       "Round the YaRN correction range to whole dimensions (default: the model's)", assign_round_dims},
  };
}

}  // namespace orcd::app
