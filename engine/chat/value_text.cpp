#include "engine/chat/value_text.hpp"

#include <cstdio>

#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view white_space = " \n\t\r";
  const std::size_t first = text.find_first_not_of(white_space);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white_space) - first + 1);
}

value_kinds kind_of_json(char first) {
  switch (first) {
    case '"': return text_kind;
    case '[': return array_kind;
    case '{': return object_kind;
    case 't':
    case 'f': return boolean_kind;
    case 'n': return null_kind;
    default: return number_kind;
  }
}

std::string as_string(std::string_view text) {
  std::string out = "\"";
  append_escaped(out, text);
  return out += '"';
}

/// The JSON that a text is. Empty if it is none.
std::string json_of(std::string_view text) {
  if (const std::string_view json = without_python(text); json != text) return std::string(json);
  json_scanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto v = scanner.push(text[i]);
    if (v == json_scanner::verdict::done && i + 1 == text.size()) return std::string(text);
    if (v != json_scanner::verdict::more) return {};
  }
  // A number ends with what is not one.
  return scanner.push(' ') == json_scanner::verdict::outside ? std::string(text) : std::string();
}

bool begins_json(std::string_view text) {
  json_scanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto v = scanner.push(text[i]);
    if (v == json_scanner::verdict::done) return i + 1 == text.size();
    if (v != json_scanner::verdict::more) return false;
  }
  return true;
}

bool allows(const argument_type& type, char first) {
  return !type.is_text() && (type.kinds & kind_of_json(first)) != 0;
}

}  // namespace

std::string_view without_python(std::string_view text) noexcept {
  return text == "True" ? "true" : text == "False" ? "false" : text == "None" ? "null" : text;
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; continue;
      case '\\': out += "\\\\"; continue;
      case '\n': out += "\\n"; continue;
      case '\r': out += "\\r"; continue;
      case '\t': out += "\\t"; continue;
      default: break;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20) {
      out += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(byte));
    out += code;
  }
}

std::string value_of_text(std::string_view text, const argument_type& type) {
  const std::string_view value = trimmed(text);
  if (type.is_text() || value.empty()) return as_string(text);
  std::string json = json_of(value);
  if (json.empty() || !allows(type, json.front())) return as_string(text);
  return json;
}

std::string value_of_cut_text(std::string_view text, const argument_type& type) {
  const std::string_view value = trimmed(text);
  if (value.empty()) return {};
  if (allows(type, value.front()) && begins_json(value)) return std::string(value);
  std::string out = as_string(text);
  out.pop_back();
  return out;
}

}  // namespace orcd::engine
