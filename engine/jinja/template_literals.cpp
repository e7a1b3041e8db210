#include <charconv>
#include <cmath>
#include <string>

#include "engine/jinja/template_lexer.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

/// Replaces the escapes of one literal.
class unescaper {
 public:
  explicit unescaper(std::string_view in) : in_(in) {}

  std::string run() {
    while (at_ < in_.size()) {
      if (in_[at_] != '\\' || at_ + 1 == in_.size()) {
        out_ += in_[at_++];
      } else {
        ++at_;
        escape();
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    constexpr std::string_view letters = "\\'\"abfnrtv";
    constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = in_[at_++];
    if (const auto known = letters.find(c); known != std::string_view::npos) {
      out_ += meanings[known];
    } else if (is_octal(c)) {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < in_.size() && is_octal(in_[at_]); ++i) {
        code = code * 8 + static_cast<char32_t>(in_[at_++] - '0');
      }
      utf8::append(out_, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
      throw template_failure("\\N{...} in a string is not supported");
    } else if (c != '\n') {
      out_ += '\\';
      out_ += c;
    }
  }

  void hexadecimal(std::size_t digits) {
    std::uint32_t code = 0;
    const std::string_view part = in_.substr(at_, digits);
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), code, 16);
    if (failed != std::errc{} || end != part.data() + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      throw template_failure("an escape in a string has no " + std::to_string(digits) +
                             " hexadecimal digits of a character");
    }
    utf8::append(out_, code);
    at_ += digits;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string_view unescaped(std::string_view literal, arena& memory) {
  if (literal.find('\\') == std::string_view::npos) return literal;
  return memory.text(unescaper(literal).run());
}

value number_value(std::string_view literal) {
  std::string digits;
  for (const char c : literal) {
    if (c != '_') digits += c;
  }
  const bool prefixed =
      digits.size() > 1 && digits[0] == '0' && digits[1] > '9' && digits[1] != 'e' && digits[1] != 'E';
  if (!prefixed && digits.find_first_of(".eE") != std::string::npos) {
    double real = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (failed == std::errc::result_out_of_range)
      real = digits.find("e-") != std::string::npos ? 0.0 : HUGE_VAL;
    return make_real(real);
  }
  int base = 10;
  if (prefixed) {
    base = digits[1] == 'x' || digits[1] == 'X' ? 16 : digits[1] == 'o' || digits[1] == 'O' ? 8 : 2;
    digits.erase(0, 2);
  }
  std::int64_t integer = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), integer, base);
  if (failed != std::errc{} || end != digits.data() + digits.size()) {
    throw template_failure("'" + std::string(literal.substr(0, 40)) + "' is not an integer of 64 bits");
  }
  return make_integer(integer);
}

}  // namespace orcd::engine::jinja
