// Grammars of arguments that are not written as one JSON object: elements, or Python's key=value. They follow
// the schema of the function: its properties in their order, each valid under its schema, in the form that
// element_reader and python_reader read as such a value. Failures are thrown as grammar_failure: a schema of
// the whole that asks for more than properties, required and additionalProperties true or false, and a text
// with keywords other than enum, const, pattern, format, lengths and anyOf. One thread. Private to
// engine/chat.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "engine/chat/call_syntax.hpp"
#include "engine/chat/output_frame.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/token_table.hpp"

namespace orcd::engine {

/// Rules of texts that arguments of several functions share.
struct shared_texts {
  grammar::expr free;                                          ///< any text; null until it is needed
  grammar::expr key;                                           ///< any name; null until it is needed
  std::map<std::string, grammar::expr, std::less<>> patterns;  ///< texts that match a pattern
};

/// What arguments are written with.
struct argument_parts {
  const call_syntax& syntax;
  const grammar::token_table& tokens;
  grammar::program_builder& rules;
  grammar::json_grammar& shared;
  shared_texts& texts;
};

[[nodiscard]] grammar::expr make_arguments(const argument_parts& parts, const callable& tool);

}  // namespace orcd::engine
