// Strings and regular expressions as Lark spells them, and the terminals of its library `common`. Throws
// grammar_failure whose place is line:column. One thread. Source: Lark's grammar reference (lark.lark,
// common.lark).
#pragma once

#include <string_view>

#include "engine/grammar/expression.hpp"
#include "engine/grammar/grammar_text.hpp"

namespace orcd::engine::grammar {

/// "text", "text"i or "a".."z", at whose quote `text` is. Quotes may be single ones.
[[nodiscard]] expr lark_string(grammar_text& text);

/// /pattern/flags, at whose slash `text` is.
[[nodiscard]] expr lark_pattern(grammar_text& text);

/// What a terminal of `common` matches, as a pattern of regex.hpp; empty where there is none of the name.
[[nodiscard]] std::string_view common_terminal(std::string_view name) noexcept;

}  // namespace orcd::engine::grammar
