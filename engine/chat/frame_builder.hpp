// The building blocks of grammars of whole outputs, with the marks of one format and one vocabulary. Failures
// are thrown as grammar_failure. One thread. Private to engine/chat.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "engine/chat/output_frame.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/token_table.hpp"

namespace orcd::engine {

class frame_builder {
 public:
  /// Messages call what is compiled a `noun`.
  frame_builder(const output_frame& frame, const grammar::token_table& tokens, const char* noun = "schema")
      : frame_(frame), tokens_(tokens), rules_(grammar::limits_for(noun)), shared_(rules_) {}

  [[nodiscard]] const output_frame& frame() const noexcept { return frame_; }
  /// A mark as its token or, where the vocabulary has none, as text.
  [[nodiscard]] grammar::expr mark(std::string_view text) const;
  /// A value that is valid under the schema; any object where it is null.
  [[nodiscard]] grammar::expr valid(const boost::json::value* schema, bool strict);
  /// The reasoning that may come before a required call or answer.
  [[nodiscard]] grammar::expr reasoning();
  [[nodiscard]] grammar::expr call_of(const callable& tool, const grammar::expr& arguments) const;
  [[nodiscard]] grammar::expr calls_of(const grammar::expr& one, bool parallel) const;
  [[nodiscard]] grammar::expr answer(const grammar::expr& value) const;
  /// {"name": ..., KEY: arguments}
  [[nodiscard]] static grammar::expr object_of(const callable& tool, std::string_view key,
                                               const grammar::expr& arguments);
  /// Whether it is the mistral format with a mark between name and arguments.
  [[nodiscard]] bool has_arguments_mark() const { return tokens_.is_token("[ARGS]"); }

  /// Makes a rule of `body`, so that it is compiled once wherever it occurs.
  [[nodiscard]] grammar::expr as_rule(const grammar::expr& body) {
    return grammar::call(rules_.add("#", body));
  }
  /// Matches what `body` matches and `but` does not; neither may call a rule.
  [[nodiscard]] grammar::expr difference(const grammar::expr& body, const grammar::expr& but);
  [[nodiscard]] std::shared_ptr<const grammar::program> finish(const grammar::expr& whole) {
    return rules_.finish(rules_.add("#", whole));
  }
  /// For a rule that calls itself.
  [[nodiscard]] grammar::program_builder& rules() noexcept { return rules_; }

 private:
  /// Any text up to a mark. If the mark is written as text, the free text must not contain it.
  [[nodiscard]] grammar::expr free_text(std::string_view until);

  const output_frame& frame_;
  const grammar::token_table& tokens_;
  grammar::program_builder rules_;
  grammar::json_grammar shared_;
};

}  // namespace orcd::engine
