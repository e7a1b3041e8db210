#include "engine/grammar/schema/value_form.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "engine/grammar/character_sets.hpp"
#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/regex.hpp"

namespace orcd::engine::grammar {

namespace {

namespace json = boost::json;

/// What ends a bare name, or begins something else.
constexpr std::string_view no_name = ":,{}[]<>\"";

bool is_name_byte(char c) noexcept {
  return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F && no_name.find(c) == std::string_view::npos;
}

bool is_bare(std::string_view name) noexcept {
  return !name.empty() && name.front() != ' ' && name.back() != ' ' &&
         std::all_of(name.begin(), name.end(), is_name_byte);
}

/// A number as JSON has it.
std::string number_text(const json::value& value) {
  if (value.is_int64()) return std::to_string(value.get_int64());
  if (value.is_uint64()) return std::to_string(value.get_uint64());
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.get_double()).ptr;
  return {buffer.data(), static_cast<std::size_t>(end - buffer.data())};
}

}  // namespace

value_form::value_form(std::string_view mark, bool is_token)
    : mark_(mark), quote_(is_token ? std::string(1, token_mark) + std::string(mark) : std::string(mark)) {}

std::string value_form::text(std::string_view value) const {
  return is_json() ? in_quotes(value) : quote_ + std::string(value) + quote_;
}

expr value_form::text(const expr& body) const {
  return is_json() ? in_quotes(body) : sequence({literal(quote_), body, literal(quote_)});
}

expr value_form::matching(std::string_view pattern, const std::string& where) const {
  return text(is_json() ? string_matching(pattern, where) : value_matching(pattern, where));
}

expr value_form::characters(std::uint32_t least, std::uint32_t most) const {
  return text(repeat(is_json() ? string_character(0, last_code) : code_points(0, last_code), least, most));
}

std::vector<expr> value_form::never() const {
  if (is_json()) return {};
  const expr any = repeat(code_points(0, last_code), 0, unbounded);
  return {text(sequence({any, literal(mark_), any}))};
}

expr value_form::name(std::string_view value) const {
  if (!is_json() && is_bare(value)) return literal(value);
  if (!is_json() && value.find(mark_) != std::string_view::npos) return choice({});
  return literal(text(value));
}

expr value_form::name_matching(std::string_view pattern, const std::string& where) const {
  return is_json() ? matching(pattern, where) : value_matching(pattern, where);
}

expr value_form::plain_name() const {
  if (is_json()) {
    const expr character =
        choice({code_points(0x20, 0x21), code_points(0x23, 0x5B), code_points(0x5D, last_code)});
    return in_quotes(repeat(character, 0, unbounded));
  }
  byte_set edges;
  for (int c = 0; c < 0x80; ++c)
    edges[static_cast<std::size_t>(c)] = c != ' ' && is_name_byte(static_cast<char>(c));
  const expr edge = choice({one_of(edges), code_points(0x80, last_code)});
  const expr blanks = repeat(literal(" "), 0, unbounded);
  return sequence({edge, repeat(sequence({blanks, edge}), 0, unbounded)});
}

expr value_form::exact(const json::value& value, const expr& gap) const {
  std::vector<expr> out;
  const auto put = [&](std::string_view text) { out.push_back(literal(text)); };
  const auto next = [&] {
    if (out.size() > 1) put(",");
    out.push_back(gap);
  };
  switch (value.kind()) {
    case json::kind::null: return literal("null");
    case json::kind::bool_: return literal(value.get_bool() ? "true" : "false");
    case json::kind::string: {
      const std::string_view held(value.get_string().data(), value.get_string().size());
      if (!is_json() && held.find(mark_) != std::string_view::npos) return choice({});
      return literal(text(held));
    }
    case json::kind::array:
      put("[");
      for (const auto& item : value.get_array()) {
        next();
        out.push_back(exact(item, gap));
      }
      if (!value.get_array().empty()) out.push_back(gap);
      put("]");
      return sequence(std::move(out));
    case json::kind::object:
      put("{");
      for (const auto& member : value.get_object()) {
        next();
        out.insert(out.end(), {name({member.key().data(), member.key().size()}), literal(":"), gap,
                               exact(member.value(), gap)});
      }
      if (!value.get_object().empty()) out.push_back(gap);
      put("}");
      return sequence(std::move(out));
    default: return literal(number_text(value));
  }
}

}  // namespace orcd::engine::grammar
