// Splits a template's source into tokens: text outside of tags, from which white space is already removed as
// the tags ask, and the contents of tags. Source: Jinja 3.1 documentation, "Whitespace Control" and
// "Literals".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/jinja/template_syntax.hpp"
#include "engine/jinja/template_work.hpp"

namespace orcd::engine::jinja {

enum class token_kind : std::uint8_t {
  text,
  block_begin,
  block_end,
  print_begin,
  print_end,
  name,
  string,
  integer,
  real,
  mark,
  end
};

struct token {
  token_kind kind = token_kind::end;
  std::uint32_t line = 0;
  std::string_view text;  ///< as written; of a string, its value
  value constant{};       ///< a number's value
};

/// `source` is valid UTF-8; the tokens' text lies in `memory`. Throws template_failure.
[[nodiscard]] std::vector<token> tokenize(std::string_view source, arena& memory, work_meter& meter);

/// The text of a string literal between its quotes, escapes replaced. Throws template_failure.
[[nodiscard]] std::string_view unescaped(std::string_view literal, arena& memory);

/// The value of a number literal. Throws template_failure: an integer must fit 64 bits with its sign.
[[nodiscard]] value number_value(std::string_view literal);

}  // namespace orcd::engine::jinja
