// Reads one tool call that is a JSON object: {"name": N, "arguments": {...}}, or "function" or "tool_name"
// for the name and "parameters" for the arguments, in any order; "type", "id" and "tool_call_id" are ignored.
// Arguments are passed on as they come once the name is known. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/call_body.hpp"
#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

class call_reader final : public call_body {
 public:
  [[nodiscard]] verdict push(char c, std::string& arguments) override;
  /// A bracket may be missing behind the arguments.
  [[nodiscard]] bool close(std::string& arguments) override;
  [[nodiscard]] bool leave(std::string& arguments) override;
  void spoil(char c, std::string& arguments) override;
  /// The name is known and the arguments have begun, or the object has ended.
  [[nodiscard]] bool committed() const noexcept override { return committed_; }
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] std::string_view begun_name() const noexcept override;
  [[nodiscard]] bool in_string() const noexcept override;

 private:
  enum class place { before, first_key, key, colon, value, after_value, next_key, done };
  enum class member { name, arguments, text, other };

  [[nodiscard]] verdict begin_key(char c);
  [[nodiscard]] verdict in_key(char c);
  [[nodiscard]] verdict in_value(char c, std::string& arguments);
  [[nodiscard]] verdict in_scanned(char c, std::string& arguments);
  [[nodiscard]] bool end_scanned(std::string& arguments);
  [[nodiscard]] bool end_object(std::string& arguments);
  void commit(std::string& arguments);

  place place_ = place::before;
  member member_ = member::other;
  bool committed_ = false;
  bool has_name_ = false, has_arguments_ = false;
  std::string key_, name_;
  std::string early_;  ///< arguments from before the name
  std::string value_;  ///< of a member that is read as a whole
  json_scanner scanner_;
  argument_stream arguments_;
};

}  // namespace orcd::engine
