// One row per option: how it is spelled, described, checked and stored. parse_options.cpp parses by these
// rows and the help text is made from them, so that the two cannot disagree. Private to app/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/options/options.hpp"

namespace orcd::app {

/// Nullopt when the value was stored; else what it must be: "must be an integer from 1 to 256".
using requirement = std::optional<std::string>;

struct option_row {
  std::string group;
  std::string name;   ///< without dashes
  std::string value;  ///< placeholder in the help text
  std::string help;   ///< with unit, range and default
  std::function<requirement(std::string_view text, options& out)> assign;
  std::string
      implicit{};  ///< the option's value on the command line when none is given; empty: a value is needed
  std::string also{};       ///< a second name, taken wherever the first is; empty: none
  bool repeatable = false;  ///< its value is a list with commas between; given again, it adds to the list
};

/// All options but --config, --help and --version, in the order of the help text.
[[nodiscard]] const std::vector<option_row>& option_table();

/// Those that replace what the model file says about RoPE.
[[nodiscard]] std::vector<option_row> rope_rows();

/// Those of what holds for requests that do not say how tokens are chosen and templates filled.
[[nodiscard]] std::vector<option_row> sampling_rows();

/// Those of LoRA adapters.
[[nodiscard]] std::vector<option_row> lora_rows();
/// What they must be with regard to each other and to other options.
[[nodiscard]] engine::result<void> check_adapters(const options& o);

/// Those of media.
[[nodiscard]] std::vector<option_row> media_rows();
/// What they must be with regard to other options.
[[nodiscard]] engine::result<void> check_media(const options& o);

/// Those of an engine that another one can take over from.
[[nodiscard]] std::vector<option_row> failover_rows();
/// The option that a variable of the failover plan sets, by the names that its pods use: "ENGINE_ID" is
/// engine-id. Nullptr for other variables.
[[nodiscard]] const char* failover_option_of(std::string_view variable) noexcept;

/// Those of the traces of requests.
[[nodiscard]] std::vector<option_row> trace_rows();
/// What OpenTelemetry's own variables say, where no option says it; wrong values are left, with a warning, as
/// its specification wants it.
void read_trace_environment(const std::vector<std::pair<std::string, std::string>>& env, options& out);

// Parsers of values. The whole text must match; no sign, space or suffix is accepted where the format has
// none.
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text) noexcept;
[[nodiscard]] std::optional<double> parse_real(std::string_view text) noexcept;
/// A limit of such a value as the description of its option writes it: no digits that say nothing.
[[nodiscard]] std::string number_text(double value);
/// Stores a port: 0 or one that needs no privilege.
[[nodiscard]] requirement assign_port_to(std::uint16_t& port, std::string_view text);
/// Canonical 36-character form in any case; the result is lower case.
[[nodiscard]] std::optional<std::string> parse_uuid(std::string_view text);
[[nodiscard]] std::optional<gpu_selector> parse_gpu(std::string_view text);
/// "a,b": up to 64 names of 1 to 256 bytes, each once; "*" is one.
[[nodiscard]] std::optional<std::vector<std::string>> parse_model_names(std::string_view list);
/// IPv4 or IPv6 literal, or "localhost" (becomes 127.0.0.1).
[[nodiscard]] std::optional<std::string> parse_address(std::string_view text);

}  // namespace orcd::app
