#include "engine/chat/generic/string_decoder.hpp"

#include <charconv>
#include <string_view>
#include <utility>

namespace orcd::engine {

namespace {

constexpr std::string_view no_character = "\xEF\xBF\xBD";  // U+FFFD

bool is_hex_digit(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

void append_code_point(std::string& out, std::uint32_t code) {
  const auto add = [&out](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) {
    add(0xC0U | code >> 6U);
  } else if (code < 0x10000) {
    add(0xE0U | code >> 12U);
    add(0x80U | (code >> 6U & 0x3FU));
  } else {
    add(0xF0U | code >> 18U);
    add(0x80U | (code >> 12U & 0x3FU));
    add(0x80U | (code >> 6U & 0x3FU));
  }
  add(0x80U | (code & 0x3FU));
}

}  // namespace

std::string string_decoder::push(char c) {
  std::string out;
  if (held_.empty() && c == '\\') {
    held_ = c;
    return out;
  }
  if (held_.empty()) {
    if (std::exchange(high_, 0) != 0) out = no_character;
    if (c == '"') {
      ended_ = true;
    } else {
      out += c;
    }
    return out;
  }
  const bool hex = held_.size() > 1;
  if (hex && !is_hex_digit(c)) {
    // No escape: it is text, and the byte is looked at anew.
    if (std::exchange(high_, 0) != 0) out = no_character;
    out += std::exchange(held_, {});
    return out + push(c);
  }
  held_ += c;
  constexpr std::size_t escape_bytes = 6;  // \u00e9
  if (!hex && c == 'u') return out;
  if (hex) return held_.size() == escape_bytes ? code() : out;
  return escape();
}

/// Of two bytes.
std::string string_decoder::escape() {
  constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
  std::string out(std::exchange(high_, 0) != 0 ? no_character : std::string_view());
  const std::string held = std::exchange(held_, {});
  const std::size_t at = names.find(held.back());
  return out + (at == std::string_view::npos ? held : std::string(1, values[at]));
}

/// Of a code unit.
std::string string_decoder::code() {
  const std::string held = std::exchange(held_, {});
  std::uint32_t unit = 0;
  (void)std::from_chars(held.data() + 2, held.data() + held.size(), unit, 16);
  const std::uint32_t high = std::exchange(high_, 0);
  std::string out;
  if (unit >= 0xDC00 && unit < 0xE000) {
    if (high == 0) return std::string(no_character);
    append_code_point(out, 0x10000 + ((high - 0xD800) << 10U) + (unit - 0xDC00));
    return out;
  }
  if (high != 0) out = no_character;
  if (unit >= 0xD800 && unit < 0xDC00) {
    high_ = unit;
  } else {
    append_code_point(out, unit);
  }
  return out;
}

std::string string_decoder::finish() {
  std::string out(std::exchange(high_, 0) != 0 ? no_character : std::string_view());
  return out + std::exchange(held_, {});
}

}  // namespace orcd::engine
