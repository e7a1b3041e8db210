// Constrains an output to a grammar, token by token: for response_format, tool_choice, guided_* and grammar.
//
// compile_*() turns a schema, regular expression, choice or grammar into automata (an immutable
// `program`, any thread, off the gpu thread); `token_table` is a vocabulary prepared once per model;
// make_matcher() joins both into the token_constraint of one job.
//
// What is generated for a schema is always valid under it, but not everything that is valid is generated:
// - Properties come in the order in which they are declared; names that only `required` lists come last.
//   `additionalProperties` counts as false if it is absent and properties are named. If it is true or a
//   schema, further members come after the named ones; their names have no escapes and may repeat.
// - A schema without a type takes its type from its keywords ("properties": object); with none of these it
//   allows any value.
// - White space: after '{', '[', ',' and ':' and before '}' and ']' nothing, one blank, or a line end with
//   at most 64 blanks or 16 tabs. None around the whole.
// - uniqueItems is served where items have finitely many values: up to 8 in any order, more
//   in that of the schema. contains with its bounds: an item counts where it must and is
//   valid; with maxContains each item is counted, so that `contains` must be one that can be
//   negated.
// - multipleOf: of integers whole numbers up to 1,000, to which fractions are reduced; else up to
//   1,000 units of its last decimal place, of which the numbers have no more, and 15 digits in
//   all.
// - nullable beside type; lists in `items` with additionalItems as
//   prefixItems and items; dependencies; exclusive bounds that are true or
//   false.
// - patternProperties, up to 8, also beside properties and additionalProperties, which counts
//   as false if it is absent; a name that is not declared matches one pattern only.
//   propertyNames without properties. minProperties counts further members, whose names may
//   repeat, as one.
// - Numbers have at most 16 digits before and after the point, integers 18. Bounds are exact: decimals of at
//   most 15 digits or integers of 18; beside an exclusive one numbers have 15 digits in all, so that none
//   rounds to it. Strings are well-formed UTF-8, \u surrogates come in pairs.
// - enum and const are spelled in one way each, and may stand beside what their values can be tried on.
//   Nesting deeper than depth_max calls is not begun.
// - not, if/then/else, dependentRequired, dependentSchemas and oneOf become alternatives: what is not valid
//   under a schema is taken apart by its keywords (schema/negation.hpp says which). Each of them multiplies
//   what is to be compiled, within the budget. not alone: of types, values, bounds, lengths, patterns,
//   multiples, required, properties and contains; not of patternProperties, propertyNames, uniqueItems and
//   oneOf.
// - anyOf always; alternatives under which nothing is valid are left out.
// - allOf, and keywords beside $ref, anyOf and oneOf, are merged where one form exists. $ref leads into the
//   document: by a pointer, an $anchor or the $id of a part (schema/document.hpp).
// - unevaluatedProperties and unevaluatedItems: beside $ref, allOf, anyOf, and oneOf whose alternatives
//   exclude each other; what an alternative does not evaluate is taken for unevaluated, whatever others would
//   say.
// - pattern: the subset in regex.hpp, also beside lengths and further patterns; format: formats.hpp.
// - Other formats, and keywords that JSON Schema does not know, are annotations and are listed by
//   ignored_annotations().
// Anything else is refused: invalid_request whose message begins with the path of the offending part, a
// JSON pointer after '#'. Source: JSON Schema 2020-12; OpenAI structured outputs.
//
// A regular expression is matched against the whole output, anchored or not: the subset in regex.hpp. A
// message begins with the offset in bytes, as in "offset 12: ...".
//
// GBNF is what llama.cpp documents: the rule `root`; literals and [classes], [^negated] ones too, with the
// escapes \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH, each a code point; '.', any code point; groups,
// alternatives, * + ? {m} {m,} {m,n} up to 2,000; rules that call each other, also recursively, but no rule
// itself before it has matched a byte; comments. A rule ends with its line, but inside a group and after '|'
// and "::=" it goes on. Repeating what may be empty is served: it matches what it says. Nesting deeper than
// depth_max calls is not begun; what a rule calls last does not count. Refused are references to tokens
// (<[id]>) and a rule that is defined twice. A message begins with line:column, in bytes from 1:1, as in
// "3:14: ...".
//
// Lark's form is that of a grammar whose first definition has ':' and not "::=": the rule `start` or, without
// it, the first; terminals, whose names have no small letters and which call no rule and not each other in a
// circle; alternatives, groups, [optional], ? * + ~n ~n..m {n,m}; strings with the escapes \n \r \t \f \\ \"
// \' \/ \xHH \uHHHH (surrogates in pairs) and \UHHHHHHHH, "x"i, ranges, regular expressions with the flags i
// and s; %ignore, behind each terminal that a rule has; %import of `common`; %json in a rule. Priorities,
// aliases, the prefixes ! ? and _, and llguidance's captures say nothing of the text. The alternatives of a
// rule may begin with the rule itself, other recursion as in GBNF. What is taken is any text that the grammar
// describes, whatever a lexer would prefer. Limits and messages are those of GBNF. Refused by name are
// templates, references to tokens, other directives, libraries and attributes.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/token_constraint.hpp"

namespace orcd::engine {

class tokenizer;

namespace grammar {

struct program;
class token_table;

/// The most levels of nested calls (an object in an array takes up to four).
inline constexpr std::uint32_t depth_max = 256;

struct schema_options {
  bool strict = false;                    ///< refuse what OpenAI's strict mode refuses
  std::string param = "response_format";  ///< of the error
};

/// A value that is valid under `schema` (an object or a boolean).
[[nodiscard]] result<std::shared_ptr<const program>> compile_json_schema(const boost::json::value& schema,
                                                                         const schema_options& options = {});

/// What the schema says that asks for nothing, as "format=uri": at most 8, of 40 header characters each.
[[nodiscard]] const std::vector<std::string>& ignored_annotations(const program& grammar) noexcept;

/// A grammar of plain text in any of the forms that are served.
struct text_grammar {
  enum class kind { regex, choice, grammar };
  kind what = kind::grammar;
  std::string text;                  ///< regex, grammar
  std::vector<std::string> choices;  ///< choice
};
[[nodiscard]] result<std::shared_ptr<const program>> compile_text(const text_grammar& grammar,
                                                                  const std::string& param);

/// Text that the pattern matches as a whole.
[[nodiscard]] result<std::shared_ptr<const program>> compile_regex(std::string_view pattern,
                                                                   const std::string& param = "guided_regex");

inline constexpr std::size_t choices_max = 4'096;
inline constexpr std::size_t choice_bytes_max = 64U << 10U;
/// One of these texts; a message begins with the index of the one that is refused.
[[nodiscard]] result<std::shared_ptr<const program>> compile_choice(
    std::span<const std::string> choices, const std::string& param = "guided_choice");

/// Text that a grammar describes, in GBNF or in Lark's form.
[[nodiscard]] result<std::shared_ptr<const program>> compile_grammar(std::string_view text,
                                                                     const std::string& param = "grammar");

/// Any JSON object (response_format json_object).
[[nodiscard]] std::shared_ptr<const program> json_object_grammar();

/// Prepares a vocabulary; takes tens of milliseconds. `rows` of the output matrix is at least the tokenizer's
/// size; rows beyond the tokenizer are never allowed. The table may be used by any number of threads.
[[nodiscard]] std::shared_ptr<const token_table> make_token_table(const tokenizer& vocabulary,
                                                                  std::uint32_t rows);

/// A job's matcher, at the beginning of the output. Jobs share both arguments.
[[nodiscard]] std::unique_ptr<token_constraint> make_matcher(std::shared_ptr<const program> grammar,
                                                             std::shared_ptr<const token_table> tokens);

}  // namespace grammar
}  // namespace orcd::engine
