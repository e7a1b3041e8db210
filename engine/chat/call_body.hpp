// Reads one tool call byte by byte and gives its arguments as the text of one JSON object, as they come.
// Not thread-safe. Private to engine/chat.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/chat/argument_types.hpp"
#include "engine/chat/call_syntax.hpp"

namespace orcd::engine {

class call_body {
 public:
  static constexpr std::size_t name_bytes_max = 256;
  /// What cannot be passed on yet is kept up to this size.
  static constexpr std::size_t early_bytes_max = 1U << 20U;

  enum class verdict { more, done, wrong };

  virtual ~call_body() = default;
  /// Takes a byte and appends fragments of the arguments to `arguments`. After done nothing may follow, after
  /// wrong only spoil(). A byte that makes it wrong is not taken; what is appended then belongs to a call
  /// that was committed before.
  [[nodiscard]] virtual verdict push(char c, std::string& arguments) = 0;
  /// The mark that ends calls is here: whether what came is a whole call. Appends the rest of its arguments.
  [[nodiscard]] virtual bool close(std::string& arguments) = 0;
  /// The model has ended its output here: whether what came is a whole call all the same.
  [[nodiscard]] virtual bool finish(std::string& arguments) { return close(arguments); }
  /// The call ends here, unfinished: appends what the model has left of its arguments, which is no JSON then.
  /// Whether any of them have begun.
  [[nodiscard]] virtual bool leave(std::string& arguments) = 0;
  /// A committed call went wrong with this byte, or did before it: appends it where arguments are passed on
  /// as they are written. What is passed on never becomes JSON by it.
  virtual void spoil(char c, std::string& arguments) = 0;
  /// Whether it certainly is a call.
  [[nodiscard]] virtual bool committed() const noexcept = 0;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// The name as far as it has come.
  [[nodiscard]] virtual std::string_view begun_name() const noexcept { return name(); }
  /// After done: whether the mark that ends calls was part of it.
  [[nodiscard]] virtual bool closed() const noexcept { return false; }
  /// Whether the next byte is part of a text that the call holds.
  [[nodiscard]] virtual bool in_string() const noexcept = 0;
  /// Whether a mark at this point would be part of the call.
  [[nodiscard]] virtual bool takes(std::string_view mark) const noexcept {
    (void)mark;
    return in_string();
  }
};

/// A reader of calls in this syntax, which must outlive it. `lenient`: marks between arguments may be
/// missing.
[[nodiscard]] std::unique_ptr<call_body> make_call_body(const call_syntax& syntax,
                                                        std::shared_ptr<const argument_types> types,
                                                        bool lenient);

/// Letters, digits and _ - . : of which functions' names are.
[[nodiscard]] inline bool is_name(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}
[[nodiscard]] inline bool is_space(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

}  // namespace orcd::engine
