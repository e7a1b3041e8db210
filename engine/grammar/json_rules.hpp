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

/// The rule of a string in its quotes: well-formed UTF-8, escapes of one character, \uXXXX with surrogates in
/// pairs only. A call may bound its length.
inline constexpr rule_id string_rule = 0;
[[nodiscard]] std::vector<state> string_states();

/// White space between tokens of JSON: nothing, one blank, or a line end with at most this much indentation.
inline constexpr std::uint32_t indent_blanks_max = 64;
inline constexpr std::uint32_t indent_tabs_max = 16;
[[nodiscard]] expr whitespace();

/// Digits of a number that a schema does not bound: 16 before and after the point, 2 of the exponent.
inline constexpr std::uint32_t number_digits_max = 16;
[[nodiscard]] expr number();
/// Up to 18 digits, so that it fits 64 bits; no "-0".
[[nodiscard]] expr integer();
/// An integer in [low, high]; an absent bound is that of integer(). Unless `low` <= `high` nothing matches.
[[nodiscard]] expr integer_between(std::optional<std::int64_t> low, std::optional<std::int64_t> high);

/// A decimal of at most 15 digits that bounds a number.
struct number_bound {
  bool negative = false;
  std::uint64_t whole = 0;
  std::string fraction;  ///< the digits after the point, without zeros at the end
  bool exclusive = false;
};
/// Nothing where it has more than 18 digits.
[[nodiscard]] std::optional<number_bound> whole_number(std::int64_t value, bool exclusive);
/// Nothing where the value has more digits, or is above 18 digits.
[[nodiscard]] std::optional<number_bound> decimal(double value, bool exclusive);
/// A number of at most 18 digits as a whole number of units of its last decimal place.
struct scaled_number {
  std::int64_t units = 0;
  std::uint32_t places = 0;
};
/// Nothing where the value has more digits, a fraction more than 15.
[[nodiscard]] std::optional<scaled_number> scaled(const boost::json::value& number);
/// 10^places, for at most 18 places.
[[nodiscard]] std::int64_t power_of_ten(std::uint32_t places) noexcept;

/// Numbers without exponent between the bounds; null where there is none.
[[nodiscard]] expr number_between(const std::optional<number_bound>& low,
                                  const std::optional<number_bound>& high);

/// Decimals that are no integers and have at most 15 digits, so that no double among them is one.
[[nodiscard]] expr proper_fraction();

/// One character of a string in [first, last] as it is spelled in JSON: raw where that is allowed, else by
/// its one escape.
[[nodiscard]] expr string_character(char32_t first, char32_t last);

/// What the expression matches, in quotes.
[[nodiscard]] expr in_quotes(const expr& text);

/// A string in its quotes, spelled as string_character does.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace orcd::engine::grammar
