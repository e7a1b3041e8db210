// The arguments of a tool call on their way out: passed on as they come, always completable to one JSON
// object. Line ends that a model leaves bare in a string are escaped. Not thread-safe.
#pragma once

#include <string>

#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

class argument_stream {
 public:
  using verdict = json_scanner::verdict;

  /// Appends to `out` what can be sent. The value must be an object; wrong for anything else.
  [[nodiscard]] verdict push(char c, std::string& out);
  /// Appends what is missing, where the text ends too early.
  void complete(std::string& out) const;
  /// Taken and not sent: the beginning of an escape, a comma. Belongs to nothing once the value went wrong.
  [[nodiscard]] const std::string& held() const noexcept { return held_; }
  [[nodiscard]] bool in_string() const noexcept { return scanner_.in_string(); }
  [[nodiscard]] bool started() const noexcept { return started_; }

 private:
  json_scanner scanner_;
  json_scanner settled_;  ///< as it was when the last byte was sent
  std::string held_;
  bool started_ = false;
};

}  // namespace orcd::engine
