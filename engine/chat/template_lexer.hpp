// A template's source as tokens: text outside of tags with white space already taken away as the tags ask,
// and what is inside tags. Source: Jinja 3.1 documentation, "Whitespace Control" and "Literals".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/chat/template_syntax.hpp"

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
  std::string_view text;  ///< as written; of a string, what it stands for
  value constant{};       ///< of a number
};

/// `source` is valid UTF-8; the tokens' text lies in `memory`. Throws template_failure.
[[nodiscard]] std::vector<token> tokenize(std::string_view source, arena& memory);

/// The text of a string literal between its quotes, escapes replaced. Throws template_failure.
[[nodiscard]] std::string_view unescaped(std::string_view literal, arena& memory);

/// The value of a number as it is written. Throws template_failure: an integer must fit 64 bits with its
/// sign.
[[nodiscard]] value number_value(std::string_view literal);

}  // namespace orcd::engine::jinja
