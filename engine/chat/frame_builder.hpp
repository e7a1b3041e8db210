// The building blocks of grammars of whole outputs, with the marks of one format and one vocabulary. Failures
// are thrown as grammar_failure. One thread. Private to engine/chat.
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/chat/argument_grammar.hpp"
#include "engine/chat/call_syntax.hpp"
#include "engine/chat/output_frame.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/token_table.hpp"

namespace orcd::engine {

class frame_builder {
 public:
  /// Messages call what is compiled a `noun`.
  frame_builder(const output_frame& frame, const grammar::token_table& tokens, const char* noun = "schema")
      : frame_(frame),
        syntax_(syntax_of(frame.format.calls)),
        tokens_(tokens),
        rules_(grammar::limits_for(noun)),
        shared_(rules_) {
    if (syntax_.what == call_syntax::body::marked)
      marked_.emplace(rules_, grammar::value_form(syntax_.quote, tokens.is_token(syntax_.quote)));
  }

  [[nodiscard]] const output_frame& frame() const noexcept { return frame_; }
  [[nodiscard]] const call_syntax& syntax() const noexcept { return syntax_; }
  /// A mark as its token or, where the vocabulary has none, as text.
  [[nodiscard]] grammar::expr mark(std::string_view text) const;
  /// A value that is valid under the schema; any object where it is null.
  [[nodiscard]] grammar::expr valid(const boost::json::value* schema, bool strict);
  /// The reasoning that may come before a required call or answer.
  [[nodiscard]] grammar::expr reasoning();
  /// The arguments of a call, in the form of the format.
  [[nodiscard]] grammar::expr arguments_of(const callable& tool);
  /// One call, with its marks where each has some.
  [[nodiscard]] grammar::expr call_of(const callable& tool, const grammar::expr& arguments) const;
  [[nodiscard]] grammar::expr calls_of(const grammar::expr& one, bool parallel) const;
  [[nodiscard]] grammar::expr answer(const grammar::expr& value) const;

  /// White space is the models' own: exactly as they write it; or that, one blank or nothing.
  enum class spacing { own, any };
  /// One call without marks.
  [[nodiscard]] grammar::expr bare_call(const callable& tool, const grammar::expr& arguments,
                                        spacing spaces) const;
  /// What follows the opening mark: one call and up to `more` others, to the closing mark.
  [[nodiscard]] grammar::expr behind_open(const grammar::expr& one, std::uint32_t more, spacing spaces) const;
  /// Whether it is the mistral format with a mark between name and arguments.
  [[nodiscard]] bool has_arguments_mark() const {
    return syntax_.what == call_syntax::body::lead_name && tokens_.is_token("[ARGS]");
  }

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
  /// The mark before calls, or the two.
  [[nodiscard]] grammar::expr opening() const;
  [[nodiscard]] static grammar::expr spaced(std::string_view text, spacing spaces);
  /// Any text up to a mark. If the mark is written as text, the free text must not contain it.
  [[nodiscard]] grammar::expr free_text(std::string_view until);

  const output_frame& frame_;
  const call_syntax& syntax_;
  const grammar::token_table& tokens_;
  grammar::program_builder rules_;
  grammar::json_grammar shared_;
  std::optional<grammar::json_grammar> marked_;  ///< of arguments whose texts stand between marks
  shared_texts texts_;
};

}  // namespace orcd::engine
