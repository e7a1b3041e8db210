// Character classes and comparisons of the ASCII protocols, whatever the locale; code points of UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace orcd::net {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_alphanumeric(char c) {
  return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z');
}

constexpr bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_lower(x) == to_lower(y); });
}

/// Without spaces and tabs at both ends.
constexpr std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Code points of valid UTF-8.
constexpr std::size_t code_points(std::string_view utf8) {
  return static_cast<std::size_t>(std::count_if(
      utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace orcd::net
