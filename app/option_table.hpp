// One row per option: how it is spelled, described, checked and stored. options.cpp and the help text
// are both made from these rows, so that they cannot disagree. Private to app/.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.hpp"

namespace orcd::app {

/// Empty when the value was stored; else what it must be: "must be an integer from 1 to 256".
using requirement = std::optional<std::string>;

struct option_row {
  std::string group;
  std::string name;   ///< without dashes
  std::string value;  ///< placeholder in the help text
  std::string help;   ///< with unit, range and default
  std::function<requirement(std::string_view text, options& out)> assign;
  std::string implicit{};  ///< what the option means on the command line without a value; empty: nothing
};

/// All options but --config, --help and --version, in the order of the help text.
[[nodiscard]] const std::vector<option_row>& option_table();

// Value parsers, tested on their own. The whole text must match; no sign, space or suffix is accepted
// where the format has none.
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text) noexcept;
[[nodiscard]] std::optional<double> parse_real(std::string_view text) noexcept;
/// Canonical 36-character form in any case; the result is lower case.
[[nodiscard]] std::optional<std::string> parse_uuid(std::string_view text);
[[nodiscard]] std::optional<gpu_selector> parse_gpu(std::string_view text);
/// IPv4 or IPv6 literal, or "localhost" (becomes 127.0.0.1).
[[nodiscard]] std::optional<std::string> parse_address(std::string_view text);

}  // namespace orcd::app
