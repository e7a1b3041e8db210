// The pieces that grammars of whole outputs are put together from, with the marks of one format and one
// vocabulary. Failures are thrown as grammar_failure. One thread. Private to engine/chat.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "engine/chat/output_grammar.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema_compiler.hpp"
#include "engine/grammar/token_table.hpp"

namespace orcd::engine {

class frame_builder {
 public:
  frame_builder(const output_frame& frame, const grammar::token_table& tokens)
      : frame_(frame), tokens_(tokens), shared_(rules_) {}

  [[nodiscard]] const output_frame& frame() const noexcept { return frame_; }
  /// A mark as its token, or spelled where the vocabulary has none.
  [[nodiscard]] grammar::expr mark(std::string_view text) const;
  /// A value that the schema allows; any object where it is null.
  [[nodiscard]] grammar::expr valid(const boost::json::value* schema, bool strict);
  /// What may come before a call or an answer that was demanded.
  [[nodiscard]] grammar::expr reasoning();
  [[nodiscard]] grammar::expr call_of(const callable& tool, const grammar::expr& arguments) const;
  [[nodiscard]] grammar::expr calls_of(const grammar::expr& one, bool parallel) const;
  [[nodiscard]] grammar::expr answer(const grammar::expr& value) const;
  /// {"name": ..., KEY: arguments}
  [[nodiscard]] static grammar::expr object_of(const callable& tool, std::string_view key,
                                               const grammar::expr& arguments);
  /// The format of mistral that has a mark between name and arguments.
  [[nodiscard]] bool has_arguments_mark() const { return tokens_.is_token("[ARGS]"); }

  /// As a rule, so that it is compiled once wherever it occurs.
  [[nodiscard]] grammar::expr as_rule(const grammar::expr& body) {
    return grammar::call(rules_.add("#", body));
  }
  /// What `body` matches and `but` does not; neither may call a rule.
  [[nodiscard]] grammar::expr difference(const grammar::expr& body, const grammar::expr& but);
  [[nodiscard]] std::shared_ptr<const grammar::program> finish(const grammar::expr& whole) {
    return rules_.finish(rules_.add("#", whole));
  }
  /// For a rule that calls itself.
  [[nodiscard]] grammar::program_builder& rules() noexcept { return rules_; }

 private:
  /// Any text up to a mark. Where the mark is spelled, the text must not spell it.
  [[nodiscard]] grammar::expr free_text(std::string_view until);

  const output_frame& frame_;
  const grammar::token_table& tokens_;
  grammar::program_builder rules_;
  grammar::json_grammar shared_;
};

}  // namespace orcd::engine
