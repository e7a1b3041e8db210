// Parses grammars in Lark's form, as llguidance, outlines and vLLM take it. Throws grammar_failure whose
// place is line:column. One thread. What it takes is described in grammar.hpp. Source: Lark's grammar
// reference; llguidance, docs/syntax.md.
#pragma once

#include <boost/json/value.hpp>
#include <string_view>

#include "engine/grammar/program_builder.hpp"

namespace orcd::engine::grammar {

/// Whether a grammar is in Lark's form and not in GBNF, by its first definition: "name: ..." or "name ::=
/// ...".
[[nodiscard]] bool is_lark(std::string_view text) noexcept;

/// Compiles the schema of a %json to what its values are. Throws grammar_failure with the schema's path.
using inner_schema = expr (*)(program_builder& builder, const boost::json::value& schema);

/// Defines the rules of the grammar `text`; returns `start` or, where there is none, the first one.
[[nodiscard]] rule_id define_lark(program_builder& builder, std::string_view text, inner_schema inner);

}  // namespace orcd::engine::grammar
