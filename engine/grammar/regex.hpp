// A bounded subset of ECMAScript regular expressions, as JSON Schema's `pattern` uses them, compiled to the
// spelling of a JSON string or to plain text. Understood: literals, escapes (\d \w \s and their negations, \n
// \t ..., \xHH, \uHHHH, \p{...} and \P{...} of general categories and of scripts), '.', classes, groups
// without back references, alternatives, * + ? {m,n} also lazy, \b and \B (words are of ASCII, as \w), ^ at
// the beginning and $ at the end of an alternative of the whole. Everything else is refused. Source: JSON
// Schema 2020-12 validation 6.3.3 (a pattern is searched for unless it is anchored).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/grammar/expression.hpp"

namespace orcd::engine::grammar {

inline constexpr std::size_t pattern_bytes_max = 2'048;
inline constexpr std::uint32_t pattern_depth_max = 32;
inline constexpr std::uint32_t pattern_repeats_max = 1'024;

/// Matches the text of a JSON string, without its quotes, whose value matches the pattern. Throws
/// grammar_failure at `where`.
[[nodiscard]] expr string_matching(std::string_view pattern, const std::string& where);

/// Matches the value itself.
[[nodiscard]] expr value_matching(std::string_view pattern, const std::string& where);

/// Matches text that matches the pattern as a whole, with or without anchors. Throws grammar_failure at the
/// offset in bytes.
[[nodiscard]] expr text_matching(std::string_view pattern);

}  // namespace orcd::engine::grammar
