// Passes on the arguments of a tool call as they come: one JSON object, in which two slips of models are
// mended. Unescaped line ends in a string are escaped, and a backslash before what is no escape is one of the
// text. What the model leaves unfinished stays unfinished. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

class argument_stream {
 public:
  using verdict = json_scanner::verdict;

  /// Appends to `out` what can be sent. The value must be an object; wrong for anything else.
  [[nodiscard]] verdict push(char c, std::string& out);
  /// Of several bytes: false where one is wrong or outside of the object.
  [[nodiscard]] bool push_all(std::string_view json, std::string& out);
  /// A number or a constant: all of it, or, with false, nothing.
  [[nodiscard]] bool push_word(std::string_view json, std::string& out);
  /// The text ends here: appends what was taken and not sent, the beginning of an escape, a comma. What was
  /// sent is no JSON then.
  void leave(std::string& out) const { out += held_; }
  /// After `wrong`: appends the byte, and one by one those that follow, as they are. Left out is only what
  /// would make JSON of what was sent.
  void spoil(char c, std::string& out);
  [[nodiscard]] bool in_string() const noexcept { return scanner_.in_string(); }
  [[nodiscard]] bool started() const noexcept { return started_; }

 private:
  /// Takes a byte that is no escape behind a backslash.
  [[nodiscard]] verdict unescaped(char c, std::string& out);

  json_scanner scanner_;
  json_scanner settled_;  ///< the scanner's state when the last byte was sent
  std::string held_;
  bool started_ = false;
  bool spoilt_ = false;  ///< what was sent cannot become JSON any more
};

}  // namespace orcd::engine
