// The rows of the options that say how tokens are chosen and templates are filled for requests that do not.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <iterator>
#include <limits>

#include "app/options/option_table.hpp"
#include "engine/sampling/sampling_ranges.hpp"
#include "net/completion/template_variables.hpp"

namespace orcd::app {
namespace {

using text_view = std::string_view;
using engine::sampling_values;

option_row real(std::string name, std::optional<float> sampling_values::*member,
                const engine::real_range& range, const std::string& text, std::string also = "") {
  const std::string values =
      (range.above_low ? "above " : "") + number_text(range.low) + " to " + number_text(range.high);
  return {"",
          std::move(name),
          "X",
          text + " (" + values + ", default: the model's, else what changes nothing)",
          [=](text_view value, options& out) -> requirement {
            const auto number = parse_real(value);
            const auto used = static_cast<float>(number.value_or(-1e9));
            if (!number || !range.has(used)) return "must be a number, " + values;
            out.sampling.*member = used;
            return std::nullopt;
          },
          "",
          std::move(also)};
}

option_row count(std::string name, std::optional<std::uint32_t> sampling_values::*member, std::uint32_t most,
                 const std::string& text, const std::string& standard) {
  const std::string values = "0 to " + std::to_string(most);
  return {"", std::move(name), "N", text + " (" + values + ", default: the model's, else " + standard + ")",
          [=](text_view value, options& out) -> requirement {
            const auto number = parse_unsigned(value);
            if (!number || *number > most) return "must be an integer, " + values;
            out.sampling.*member = static_cast<std::uint32_t>(*number);
            return std::nullopt;
          }};
}

/// -1: all tokens of the sequence.
requirement assign_dry_window(text_view value, options& out) {
  const auto number = parse_unsigned(value);
  if (value != "-1" && (!number || *number >= engine::whole_sequence))
    return "must be -1 or an integer from 0 on";
  out.sampling.dry_last_n = number ? static_cast<std::uint32_t>(*number) : engine::whole_sequence;
  return std::nullopt;
}

requirement assign_seed(text_view value, options& out) {
  if (value == "-1") {
    out.seed.reset();
    return std::nullopt;
  }
  out.seed = parse_unsigned(value);
  if (!out.seed) return "must be an integer of 64 bits, or -1";
  return std::nullopt;
}

requirement assign_template_kwargs(text_view value, options& out) {
  constexpr std::size_t bytes_max = 16 * 1024;
  boost::system::error_code failed;
  const auto tree = boost::json::parse(value.substr(0, bytes_max + 1), failed);
  if (value.size() > bytes_max || failed || !tree.is_object()) return "must be a JSON object of up to 16 KiB";
  for (const auto& variable : tree.get_object()) {
    if (net::is_own_variable(variable.key())) return "must not set " + std::string(variable.key());
  }
  out.template_kwargs = value;
  return std::nullopt;
}

requirement assign_reasoning_budget(text_view value, options& out) {
  constexpr std::uint32_t most = std::numeric_limits<std::int32_t>::max();
  const auto number = parse_unsigned(value);
  if (value != "-1" && (!number || *number > most)) return "must be -1 or an integer, 0 to 2147483647 tokens";
  out.reasoning_budget = number ? std::optional(static_cast<std::uint32_t>(*number)) : std::nullopt;
  return std::nullopt;
}

requirement assign_reasoning(text_view value, options& out) {
  if (value != "auto" && value != "on" && value != "off") return "must be auto, on or off";
  out.reasoning = value == "auto" ? std::nullopt : std::optional(value == "on");
  return std::nullopt;
}

/// Of samplers that llama-server alone has; off unless the file switches one on.
std::vector<option_row> rare_rows() {
  using v = sampling_values;
  return {
      real("dry-multiplier", &v::dry_multiplier, engine::dry_multiplier_range,
           "DRY: against continuing what was said before; 0 = off"),
      real("dry-base", &v::dry_base, engine::dry_base_range, "DRY: how it grows with the repetition"),
      count("dry-allowed-length", &v::dry_allowed_length, engine::dry_allowed_length_max,
            "DRY: tokens that may be repeated", "2"),
      {"", "dry-penalty-last-n", "N", "DRY: tokens that it looks at; 0 = off, -1 = all (default -1)",
       assign_dry_window},
      real("xtc-probability", &v::xtc_probability, engine::share_range,
           "XTC: how often the most likely tokens are left out; 0 = off"),
      real("xtc-threshold", &v::xtc_threshold, engine::share_range,
           "XTC: those from this share on; above 0.5 = off"),
      real("typical-p", &v::typical_p, engine::share_range,
           "Of the most typical tokens those with this share; 1 = all", "typical"),
      real("top-n-sigma", &v::top_n_sigma, engine::top_n_sigma_range,
           "Logits within so many standard deviations of the highest; 0 and less = all", "top-nsigma"),
      real("dynatemp-range", &v::dynatemp_range, engine::temperature_range,
           "The temperature follows the entropy, so far to both sides; 0 = not"),
      real("dynatemp-exp", &v::dynatemp_exponent, engine::dynatemp_exponent_range, "How it follows"),
  };
}

}  // namespace

std::vector<option_row> sampling_rows() {
  using v = sampling_values;
  std::vector<option_row> out{
      real("temperature", &v::temperature, engine::temperature_range, "0 is the most likely token", "temp"),
      count("top-k", &v::top_k, engine::top_k_max, "Of the most likely tokens so many; 0 = all", "0"),
      real("top-p", &v::top_p, engine::top_p_range,
           "Of the most likely tokens those with this share; 1 = all"),
      real("min-p", &v::min_p, engine::min_p_range, "No token below this share of the most likely one"),
      real("repeat-penalty", &v::repetition_penalty, engine::repetition_penalty_range,
           "Factor against tokens of the look-back window; 1 = none"),
      real("presence-penalty", &v::presence_penalty, engine::penalty_range,
           "Taken from tokens of the window, once"),
      real("frequency-penalty", &v::frequency_penalty, engine::penalty_range,
           "Taken from tokens of the window, for each time"),
      count("repeat-last-n", &v::repeat_last_n, engine::repeat_last_n_max, "Tokens of the window", "64"),
      {"", "seed", "N", "Of draws: 64 bits, -1 for another one with each request (default -1)", assign_seed},
      {"", "chat-template-kwargs", "JSON", "Variables of the chat template: a JSON object (default: none)",
       assign_template_kwargs},
      {"", "reasoning", "auto|on|off",
       "Whether templates that can switch reasoning are told to (default auto: as they do by themselves)",
       assign_reasoning},
      {"", "reasoning-budget", "N",
       "Most tokens of a chat's reasoning, which is ended then; 0 = none, -1 = no limit (default -1)",
       assign_reasoning_budget},
  };
  auto rare = rare_rows();
  const auto place = std::find_if(out.begin(), out.end(), [](const auto& row) { return row.name == "seed"; });
  out.insert(place, std::make_move_iterator(rare.begin()), std::make_move_iterator(rare.end()));
  return out;
}

}  // namespace orcd::app
