// The parts of JSON that every schema shares. Source: RFC 8259; JSON Schema 2020-12 (lengths are code
// points).
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/grammar/expression.hpp"
#include "engine/grammar/program.hpp"

namespace orcd::engine::grammar {

/// A string in its quotes: well-formed UTF-8, escapes of one character, \uXXXX with surrogates in pairs only.
/// Its calls may bound its length.
inline constexpr rule_id string_rule = 0;
[[nodiscard]] std::vector<state> string_states();

/// Between tokens of JSON: nothing, one blank, or a line end with at most this much indentation.
inline constexpr std::uint32_t indent_blanks_max = 64;
inline constexpr std::uint32_t indent_tabs_max = 16;
[[nodiscard]] expr whitespace();

/// Digits of a number that a schema does not bound: 16 before and after the point, 2 of the exponent.
inline constexpr std::uint32_t number_digits_max = 16;
[[nodiscard]] expr number();
/// Up to 18 digits, so that it fits 64 bits; no "-0".
[[nodiscard]] expr integer();
/// In [low, high]; an absent bound is that of integer(). `low` <= `high` or nothing matches.
[[nodiscard]] expr integer_between(std::optional<std::int64_t> low, std::optional<std::int64_t> high);

struct number_bound {
  std::int64_t value = 0;
  bool exclusive = false;
};
/// Numbers without exponent between whole bounds.
[[nodiscard]] expr number_between(std::optional<number_bound> low, std::optional<number_bound> high);

/// One character of a string in [first, last] as it is spelled in JSON: raw where that is allowed, else by
/// its one escape.
[[nodiscard]] expr string_character(char32_t first, char32_t last);

/// A string in its quotes, spelled as string_character does.
[[nodiscard]] std::string quoted(std::string_view text);

/// This value and no other, with the white space that `gap` matches between its parts.
[[nodiscard]] expr exact_value(const boost::json::value& value, const expr& gap);

}  // namespace orcd::engine::grammar
