// Follows one JSON value byte by byte: whether it is valid so far. Used where a model's text is passed on
// before it is complete. Not thread-safe. Source: RFC 8259.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace orcd::engine {

class json_scanner {
 public:
  static constexpr std::size_t depth_max = 128;

  enum class verdict {
    more,     ///< taken, the value goes on
    done,     ///< taken, and the value ends with it
    outside,  ///< not taken: the value (a number) had ended before it
    wrong,    ///< not taken: no valid value continues with it
  };
  /// White space before the value is taken. After done, outside or wrong nothing may follow.
  [[nodiscard]] verdict push(char c);

  /// Whether what came can be passed on: not within an escape, and not right after a comma.
  [[nodiscard]] bool settled() const noexcept {
    return escape_ == 0 && pair_ == 0 && state_ != state::after_comma;
  }
  /// Whether a backslash came in a string, and nothing behind it yet.
  [[nodiscard]] bool escapes() const noexcept { return escape_ == 1; }
  [[nodiscard]] bool in_string() const noexcept { return state_ == state::string; }
  [[nodiscard]] bool started() const noexcept { return state_ != state::value || !open_.empty(); }

 private:
  enum class state { value, string, number, word, after_value, first_member, after_comma, colon, done };

  [[nodiscard]] verdict begin_value(char c);
  [[nodiscard]] verdict in_text(char c);
  [[nodiscard]] verdict in_hex(char c);
  [[nodiscard]] verdict in_number(char c);
  [[nodiscard]] verdict after(char c);
  [[nodiscard]] verdict member(char c);
  [[nodiscard]] verdict end_value();

  state state_ = state::value;
  std::vector<char> open_;   ///< the open brackets, '{' and '['
  bool key_ = false;         ///< the string is a member's name
  std::uint8_t escape_ = 0;  ///< 1: after a backslash; 2 + n: n digits of \uXXXX have come
  std::uint16_t code_ = 0;   ///< the value of \uXXXX so far
  std::uint8_t pair_ = 0;    ///< 1: a low surrogate must follow; 2: its backslash is here; 3: its \u
  std::string_view word_;    ///< the rest of true, false or null
  enum class digits { sign, zero, whole, point, fraction, e, e_sign, exponent } number_ = digits::sign;
};

}  // namespace orcd::engine
