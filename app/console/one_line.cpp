#include "app/console/one_line.hpp"

#include "engine/text/utf8.hpp"

namespace orcd::app {
namespace {

namespace utf8 = engine::utf8;

void append_escaped(std::string& out, std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += "\\x";
    out += digits[byte >> 4U];
    out += digits[byte & 15U];
  }
}

}  // namespace

bool is_control(char32_t code) noexcept {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) ||  // C0, DEL, C1
         code == 0x2028 || code == 0x2029 ||              // line and paragraph separators
         code == 0x200E || code == 0x200F || code == 0x061C || (code >= 0x202A && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);  // directions
}

std::string one_line(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [code, size] = utf8::decode(text.data(), text.data() + text.size());
    const std::string_view bytes = text.substr(0, size);
    if (code == utf8::invalid || is_control(code)) {
      append_escaped(out, bytes);
    } else {
      out += bytes;
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string complaint(std::string_view about, std::string_view text) {
  return one_line(about) + ": " + one_line(text) + "\n";
}

}  // namespace orcd::app
