// Passes on the arguments of a tool call as they come, so that they can always be completed to one JSON
// object. Unescaped line ends in a string, which some models write, are escaped. Not thread-safe.
#pragma once

#include <string>

#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

class argument_stream {
 public:
  using verdict = json_scanner::verdict;

  /// Appends to `out` what can be sent. The value must be an object; wrong for anything else.
  [[nodiscard]] verdict push(char c, std::string& out);
  /// Appends what makes the object complete, when the text ended too early.
  void complete(std::string& out) const;
  /// Bytes that were taken and not sent: the beginning of an escape, a comma. After `wrong` they are not part
  /// of the value.
  [[nodiscard]] const std::string& held() const noexcept { return held_; }
  [[nodiscard]] bool in_string() const noexcept { return scanner_.in_string(); }
  [[nodiscard]] bool started() const noexcept { return started_; }

 private:
  json_scanner scanner_;
  json_scanner settled_;  ///< the scanner's state when the last byte was sent
  std::string held_;
  bool started_ = false;
};

}  // namespace orcd::engine
