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

/// The JSON that a text is; completed if it was cut off. Empty if it is none.
std::string json_of(std::string_view text, bool cut) {
  if (text == "True" || text == "False" || text == "None")
    return text == "True" ? "true" : text == "False" ? "false" : "null";
  json_scanner scanner;
  json_scanner settled;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto v = scanner.push(text[i]);
    if (v == json_scanner::verdict::done && i + 1 == text.size()) return std::string(text);
    if (v != json_scanner::verdict::more) return {};
    if (!cut || !scanner.settled()) continue;
    settled = scanner;
    taken = i + 1;
  }
  // A number ends with what is not one.
  if (!cut) return scanner.push(' ') == json_scanner::verdict::outside ? std::string(text) : std::string();
  return taken == 0 ? std::string() : std::string(text.substr(0, taken)) + settled.completion();
}

std::string typed(std::string_view text, const argument_type& type, bool cut) {
  const std::string_view value = trimmed(text);
  if (type.is_text() || value.empty()) return as_string(text);
  std::string json = json_of(value, cut);
  if (json.empty() || (type.kinds & kind_of_json(json.front())) == 0) return as_string(text);
  return json;
}

}  // namespace

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
  return typed(text, type, false);
}

std::string value_of_cut_text(std::string_view text, const argument_type& type) {
  return typed(text, type, true);
}

}  // namespace orcd::engine
