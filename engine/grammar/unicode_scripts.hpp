// The scripts that a pattern may name, as ranges of code points. Generated; any thread. Source: Unicode 16.0,
// Scripts and PropertyValueAliases.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace orcd::engine::grammar {

struct script_name {
  std::string_view code, name;  ///< "Latn", "Latin"
};

struct script_range {
  char32_t first, last;
  std::uint8_t script;  ///< its place among the names
};

[[nodiscard]] std::span<const script_name> script_names() noexcept;

/// Ascending within each script.
[[nodiscard]] std::span<const script_range> script_ranges() noexcept;

}  // namespace orcd::engine::grammar
