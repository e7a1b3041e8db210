// A bounded subset of ECMAScript regular expressions, as JSON Schema's `pattern` uses them, compiled to the
// spelling of a JSON string or to plain text. Understood: literals, escapes (\d \w \s and their negations, \n
// \t ..., \xHH, \uHHHH, \p{...} and \P{...} of general categories and of scripts), '.', classes, groups
// without back references, also with the flags i and s, as in (?i:a), alternatives, * + ? {m,n} also lazy, \b
// and \B (words are of ASCII, as \w), ^ at the beginning and $ at the end of an alternative of the whole.
// Everything else is refused. Source: JSON Schema 2020-12 validation 6.3.3 (a pattern is searched for unless
// it is anchored).
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

struct pattern_flags {
  bool any_case = false;  ///< i: letters in any case
  bool any_code = false;  ///< s: '.' is any code point
  /// Of a text of which the pattern describes a part: '.' is all but "\n", as in Python and Rust; without
  /// anchors and \b, which ask what is around the part.
  bool part = false;
};

/// Matches text that matches the pattern as a whole, with or without anchors. It may begin with flags, as in
/// (?i). Throws grammar_failure at the offset in bytes, "offset 3".
[[nodiscard]] expr text_matching(std::string_view pattern, pattern_flags flags = {});

}  // namespace orcd::engine::grammar
