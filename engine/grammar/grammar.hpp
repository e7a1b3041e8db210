// Output constrained to a grammar: what response_format and tool_choice promise, enforced token by token.
//
// compile_*() turns a schema into automata (an immutable `program`, any thread, off the gpu thread);
// `token_table` is a vocabulary prepared once per model; make_matcher() joins both into the token_constraint
// of one job.
//
// What is generated for a schema is always valid under it, but not everything that is valid is generated:
// - Properties come in the order in which they are declared; names that only `required` lists come last.
//   `additionalProperties` absent beside named properties counts as false; true or a schema: further members
//   after the named ones, whose names contain no escapes and may repeat one another.
// - A schema without a type takes its type from its keywords ("properties": object); with none it is any
// value.
// - White space: after '{', '[', ',' and ':' and before '}' and ']' nothing, one blank, or a line end with at
// most
//   64 blanks or 16 tabs. None around the whole.
// - Numbers have at most 16 digits before and after the point, integers 18; integer bounds are exact; other
//   numbers take whole bounds only. Strings are well-formed UTF-8, \u surrogates come in pairs.
// - enum and const are spelled in one way each. Nesting deeper than depth_max calls is not begun.
// - oneOf is taken where its alternatives provably exclude each other, otherwise refused; anyOf is free.
// - allOf, and keywords beside $ref and anyOf, are merged where one form exists.
// - pattern: the subset in regex.hpp; format: formats.hpp.
// Anything else fails closed: invalid_request whose message begins with the path of the offending part, a
// JSON pointer after '#'. Source: seed 002 (structured output), issue 5 items 1 and 3; JSON Schema 2020-12;
// OpenAI structured outputs.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/error.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

class tokenizer;

namespace grammar {

struct program;
class token_table;

/// Levels of nested calls (an object in an array takes up to four).
inline constexpr std::uint32_t depth_max = 256;

struct schema_options {
  bool strict = false;                    ///< refuse what OpenAI's strict mode refuses
  std::string param = "response_format";  ///< of the error
};

/// A value that is valid under `schema` (an object or a boolean).
[[nodiscard]] result<std::shared_ptr<const program>> compile_json_schema(const boost::json::value& schema,
                                                                         const schema_options& options = {});

/// Any JSON object (response_format json_object).
[[nodiscard]] std::shared_ptr<const program> json_object_grammar();

/// Prepares a vocabulary, tens of milliseconds. `rows` of the output matrix, at least the tokenizer's size;
/// what is beyond the tokenizer is never allowed. Any number of threads may use it.
[[nodiscard]] std::shared_ptr<const token_table> make_token_table(const tokenizer& vocabulary,
                                                                  std::uint32_t rows);

/// A job's matcher, at the beginning of the output. Both arguments are shared among jobs.
[[nodiscard]] std::unique_ptr<token_constraint> make_matcher(std::shared_ptr<const program> grammar,
                                                             std::shared_ptr<const token_table> tokens);

}  // namespace grammar
}  // namespace orcd::engine
