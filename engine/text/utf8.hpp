// Decoding of UTF-8 that may be invalid. Source: Unicode 15, table 3-7 (well-formed byte sequences).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace orcd::engine::utf8 {

/// Stands for a byte that belongs to no well-formed sequence; above every code point.
inline constexpr char32_t invalid = 0x110000;
inline constexpr std::string_view replacement = "\xEF\xBF\xBD";

struct sequence {
  std::uint8_t needed;   ///< length by the lead byte; 0 when it cannot be one
  std::uint8_t present;  ///< bytes at hand that are a well-formed beginning, 1..needed
};

/// Looks at the sequence at the front of `bytes` (not empty). It is well formed when present ==
/// needed; a beginning cut off by the end of `bytes` when present == bytes.size() < needed; otherwise
/// its first max(present, 1) bytes are one maximal subpart, to be replaced by one U+FFFD.
[[nodiscard]] inline sequence inspect(std::string_view bytes) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return {1, 1};
  if (lead < 0xC2 || lead > 0xF4) return {0, 0};
  const std::uint8_t needed = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range excludes overlong forms, surrogates and everything above U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  std::uint8_t present = 1;
  if (bytes.size() > 1 && at(1) >= low && at(1) <= high) {
    present = 2;
    while (present < needed && present < bytes.size() && (at(present) & 0xC0) == 0x80) ++present;
  }
  return {needed, present};
}

struct decoded {
  char32_t code;       ///< or `invalid`
  std::uint32_t size;  ///< bytes taken; 1 for an invalid byte
};

/// The code point at the front of [p, end), which is not empty.
[[nodiscard]] inline decoded decode(const char* p, const char* end) noexcept {
  const auto byte = [p](int i) { return static_cast<unsigned char>(p[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const sequence s = inspect({p, static_cast<std::size_t>(end - p)});
  if (s.needed == 0 || s.present < s.needed) return {invalid, 1};
  char32_t code = byte(0) & (0xFFu >> (s.needed + 1));
  for (int i = 1; i < s.needed; ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return {code, s.needed};
}

/// The number of bytes of `text` before the first that is not UTF-8.
[[nodiscard]] inline std::size_t valid_bytes(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const decoded code = decode(text.data() + at, text.data() + text.size());
    if (code.code == invalid) break;
    at += code.size;
  }
  return at;
}

/// Appends a valid code point.
inline void append(std::string& out, char32_t code) {
  const auto put = [&out](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

}  // namespace orcd::engine::utf8
