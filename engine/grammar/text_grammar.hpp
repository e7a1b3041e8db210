// Grammars of plain text as rules of a program: a regular expression, a choice of texts, GBNF, Lark. Throws
// grammar_failure at the place that grammar.hpp describes. One thread. Private to engine/.
#pragma once

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/lark.hpp"
#include "engine/grammar/program_builder.hpp"

namespace orcd::engine::grammar {

/// What messages call such a grammar.
[[nodiscard]] const char* noun_of(const text_grammar& grammar) noexcept;

/// The rule that matches the whole text. `inner` compiles schemas that the grammar has within it
/// (compile_inner_schema() of schema/compiler.hpp).
[[nodiscard]] rule_id define_text(program_builder& builder, const text_grammar& grammar, inner_schema inner);

}  // namespace orcd::engine::grammar
