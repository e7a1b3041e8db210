#include "net/json/json_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/text/utf8.hpp"

namespace orcd::net {
namespace {

/// The escape of one character that may not stand in a JSON string as it is; empty for all others.
std::string_view short_escape(char c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    case '\b': return "\\b";
    case '\f': return "\\f";
    default: return {};
  }
}

/// Bytes of the character at the front of `text`, if it may stand in a JSON string as it is; else 0.
std::size_t size_as_it_is(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text.front());
  if (byte < 0x80) return byte >= 0x20 && byte != '"' && byte != '\\' ? 1 : 0;
  const engine::utf8::sequence found = engine::utf8::inspect(text);
  return found.needed == found.present ? found.needed : 0;
}

/// Appends what stands for the front of `text`, and returns how many bytes that is.
std::size_t append_other(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(text.front());
  if (byte >= 0x80) {
    out += engine::utf8::replacement;
    return std::max<std::size_t>(engine::utf8::inspect(text).present, 1);
  }
  if (const auto escape = short_escape(text.front()); !escape.empty()) {
    out += escape;
  } else {
    out += "\\u00";
    out += hex[byte >> 4U];
    out += hex[byte & 15U];
  }
  return 1;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = size_as_it_is(text.substr(i));
    if (size > 0) {
      i += size;
      continue;
    }
    out.append(text, plain, i - plain);
    i += append_other(out, text.substr(i));
    plain = i;
  }
  out.append(text, plain, text.size() - plain);
  out += '"';
}

void append_decimal(std::string& out, double value, int digits) {
  if (!std::isfinite(value)) value = 0.0;
  std::array<char, 340> buffer;  // the longest double in fixed notation has 309 digits before the point
  const auto done =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, digits);
  std::string_view text(buffer.data(), static_cast<std::size_t>(done.ptr - buffer.data()));
  if (text.find('.') != std::string_view::npos) {
    text = text.substr(0, text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.remove_suffix(1);
  }
  out += text == "-0" ? std::string_view("0") : text;
}

void json_object::name(std::string_view key) {
  if (!first_) out_ += ',';
  first_ = false;
  append_json_string(out_, key);
  out_ += ':';
}

json_object& json_object::text(std::string_view key, std::string_view value) {
  name(key);
  append_json_string(out_, value);
  return *this;
}

json_object& json_object::number(std::string_view key, double value, int digits) {
  name(key);
  append_decimal(out_, value, digits);
  return *this;
}

json_object& json_object::boolean(std::string_view key, bool value) {
  name(key);
  out_ += value ? "true" : "false";
  return *this;
}

json_object& json_object::raw(std::string_view key, std::string_view json) {
  name(key);
  out_ += json;
  return *this;
}

json_object& json_object::null(std::string_view key) {
  name(key);
  out_ += "null";
  return *this;
}

json_object json_object::object(std::string_view key) {
  name(key);
  return json_object(out_);
}

}  // namespace orcd::net
