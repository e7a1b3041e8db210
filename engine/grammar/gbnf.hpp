// Parses grammars in GBNF, llama.cpp's form of Backus-Naur. Throws grammar_failure whose place is
// line:column. One thread. What it takes is described in grammar.hpp. Source: grammars/README.md of
// llama.cpp.
#pragma once

#include <string_view>

#include "engine/grammar/program_builder.hpp"

namespace orcd::engine::grammar {

/// Defines the rules of the grammar `text`; returns `root`.
[[nodiscard]] rule_id define_gbnf(program_builder& builder, std::string_view text);

}  // namespace orcd::engine::grammar
