#include "engine/grammar/json_rules.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

// States of the string rule.
enum string_state : state_id {
  opening,
  body,
  closed,
  escape,
  tail_1,  // continuation bytes to come
  tail_2,
  tail_3,
  after_e0,
  after_ed,
  after_f0,
  after_f4,
  hex_4,  // \uXXXX, digits to come
  hex_3,
  hex_2,
  hex_1,
  hex_after_d,
  high_2,  // of a high surrogate, digits to come
  high_1,
  low_backslash,
  low_u,
  low_d,
  low_3,
  string_state_count,
};

struct table_row {
  string_state from;
  unsigned char first, last;
  string_state to;
};

constexpr auto string_table = std::to_array<table_row>({
    {opening, '"', '"', body},         {body, 0x20, 0x21, body},          {body, '"', '"', closed},
    {body, 0x23, 0x5B, body},          {body, '\\', '\\', escape},        {body, 0x5D, 0x7F, body},
    {body, 0xC2, 0xDF, tail_1},        {body, 0xE0, 0xE0, after_e0},      {body, 0xE1, 0xEC, tail_2},
    {body, 0xED, 0xED, after_ed},      {body, 0xEE, 0xEF, tail_2},        {body, 0xF0, 0xF0, after_f0},
    {body, 0xF1, 0xF3, tail_3},        {body, 0xF4, 0xF4, after_f4},      {escape, '"', '"', body},
    {escape, '/', '/', body},          {escape, '\\', '\\', body},        {escape, 'b', 'b', body},
    {escape, 'f', 'f', body},          {escape, 'n', 'n', body},          {escape, 'r', 'r', body},
    {escape, 't', 't', body},          {escape, 'u', 'u', hex_4},         {tail_1, 0x80, 0xBF, body},
    {tail_2, 0x80, 0xBF, tail_1},      {tail_3, 0x80, 0xBF, tail_2},      {after_e0, 0xA0, 0xBF, tail_1},
    {after_ed, 0x80, 0x9F, tail_1},    {after_f0, 0x90, 0xBF, tail_2},    {after_f4, 0x80, 0x8F, tail_2},
    {hex_4, '0', '9', hex_3},          {hex_4, 'A', 'C', hex_3},          {hex_4, 'D', 'D', hex_after_d},
    {hex_4, 'E', 'F', hex_3},          {hex_4, 'a', 'c', hex_3},          {hex_4, 'd', 'd', hex_after_d},
    {hex_4, 'e', 'f', hex_3},          {hex_3, '0', '9', hex_2},          {hex_3, 'A', 'F', hex_2},
    {hex_3, 'a', 'f', hex_2},          {hex_2, '0', '9', hex_1},          {hex_2, 'A', 'F', hex_1},
    {hex_2, 'a', 'f', hex_1},          {hex_1, '0', '9', body},           {hex_1, 'A', 'F', body},
    {hex_1, 'a', 'f', body},           {hex_after_d, '0', '7', hex_2},    {hex_after_d, '8', '9', high_2},
    {hex_after_d, 'A', 'B', high_2},   {hex_after_d, 'a', 'b', high_2},   {high_2, '0', '9', high_1},
    {high_2, 'A', 'F', high_1},        {high_2, 'a', 'f', high_1},        {high_1, '0', '9', low_backslash},
    {high_1, 'A', 'F', low_backslash}, {high_1, 'a', 'f', low_backslash}, {low_backslash, '\\', '\\', low_u},
    {low_u, 'u', 'u', low_d},          {low_d, 'D', 'D', low_3},          {low_d, 'd', 'd', low_3},
    {low_3, 'C', 'F', hex_2},          {low_3, 'c', 'f', hex_2},
});

/// Characters with an escape of one letter, and those letters.
constexpr std::string_view short_escapes = "\b\t\n\f\r\"\\";
constexpr std::string_view escape_names = "btnfr\"\\";
constexpr std::string_view hex_digits = "0123456789abcdef";

}  // namespace

std::vector<state> string_states() {
  std::vector<state> out(string_state_count);
  for (const table_row& row : string_table) out[row.from].bytes.push_back({row.first, row.last, row.to});
  out[closed].accepting = true;
  out[body].counted = true;
  return out;
}

expr whitespace() {
  const expr indent =
      choice({repeat(literal(" "), 0, indent_blanks_max), repeat(literal("\t"), 1, indent_tabs_max)});
  return choice({literal(""), literal(" "), sequence({literal("\n"), indent})});
}

expr string_character(char32_t first, char32_t last) {
  // The last letters of escapes \x, and of \u000x and \u001x.
  byte_set named;
  std::array<byte_set, 2> hex;
  for (char32_t c = first; c <= std::min<char32_t>(last, '\\'); ++c) {
    const std::size_t at = short_escapes.find(static_cast<char>(c));
    if (at != std::string_view::npos) {
      named.set(static_cast<unsigned char>(escape_names[at]));
    } else if (c < 0x20) {
      hex[c / 16].set(static_cast<unsigned char>(hex_digits[c % 16]));
    }
  }
  std::vector<expr> out;
  if (named.any()) out.push_back(sequence({literal("\\"), one_of(named)}));
  if (hex[0].any()) out.push_back(sequence({literal("\\u000"), one_of(hex[0])}));
  if (hex[1].any()) out.push_back(sequence({literal("\\u001"), one_of(hex[1])}));
  constexpr std::array<std::pair<char32_t, char32_t>, 3> raw{{{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}}};
  for (const auto& [from, to] : raw) {
    const char32_t low = std::max(first, from);
    const char32_t high = std::min(last, to);
    if (low <= high) out.push_back(code_points(low, high));
  }
  return choice(std::move(out));
}

expr in_quotes(const expr& text) {
  return sequence({literal("\""), text, literal("\"")});
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const std::size_t at = short_escapes.find(c);
    if (at != std::string_view::npos) {
      out += {'\\', escape_names[at]};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += std::string("\\u00") + (c < 0x10 ? '0' : '1') + hex_digits[static_cast<unsigned>(c) % 16];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace orcd::engine::grammar
