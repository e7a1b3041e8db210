#include "engine/grammar/text_grammar.hpp"

#include <utility>
#include <vector>

#include "engine/grammar/gbnf.hpp"
#include "engine/grammar/regex.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

rule_id define_regex(program_builder& builder, std::string_view pattern) {
  const rule_id root = builder.declare("offset 0");
  builder.define(root, text_matching(pattern));
  return root;
}

rule_id define_choice(program_builder& builder, std::span<const std::string> choices) {
  std::size_t bytes = 0;
  for (const std::string& text : choices) bytes += text.size();
  if (choices.empty() || choices.size() > choices_max || bytes > choice_bytes_max) {
    throw grammar_failure{"0", "there must be 1 to " + std::to_string(choices_max) + " choices, of at most " +
                                   std::to_string(choice_bytes_max) + " bytes together; there are " +
                                   std::to_string(choices.size()) + " of " + std::to_string(bytes)};
  }
  std::vector<expr> out;
  for (const std::string& text : choices) {
    if (utf8::valid_bytes(text) != text.size())
      throw grammar_failure{std::to_string(out.size()), "the text is not UTF-8"};
    out.push_back(literal(text));
  }
  return builder.add("0", choice(std::move(out)));
}

}  // namespace

const char* noun_of(const text_grammar& grammar) noexcept {
  switch (grammar.what) {
    case text_grammar::kind::regex: return "regular expression";
    case text_grammar::kind::choice: return "choice";
    case text_grammar::kind::grammar: break;
  }
  return "grammar";
}

rule_id define_text(program_builder& builder, const text_grammar& grammar, inner_schema inner) {
  switch (grammar.what) {
    case text_grammar::kind::regex: return define_regex(builder, grammar.text);
    case text_grammar::kind::choice: return define_choice(builder, grammar.choices);
    case text_grammar::kind::grammar: break;
  }
  return is_lark(grammar.text) ? define_lark(builder, grammar.text, inner)
                               : define_gbnf(builder, grammar.text);
}

}  // namespace orcd::engine::grammar
