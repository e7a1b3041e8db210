// Reads one tool call, a JSON object, byte by byte: {"name": N, "arguments": {...}}, or "function" for the
// name and "parameters" for the arguments, in any order; "type" and "id" are ignored. Arguments are passed on
// as they come once the name is known. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

class call_reader {
 public:
  static constexpr std::size_t name_bytes_max = 256;
  /// Arguments that come before the name are kept up to this size.
  static constexpr std::size_t early_bytes_max = 1U << 20U;

  enum class verdict { more, done, wrong };
  /// Takes a byte and appends fragments of the arguments to `arguments`. After done or wrong nothing may
  /// follow. A byte that makes it wrong is not taken.
  [[nodiscard]] verdict push(char c, std::string& arguments);

  /// Whether it certainly is a call: the name is known and the arguments have begun, or the object has ended.
  [[nodiscard]] bool committed() const noexcept { return committed_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Ends a committed call early: appends what completes its arguments.
  void complete(std::string& arguments) const;
  /// Bytes of the arguments that were taken and not passed on yet.
  [[nodiscard]] std::string_view held() const noexcept { return arguments_.held(); }
  /// Whether a mark at this point would be part of a string.
  [[nodiscard]] bool in_string() const noexcept;

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
