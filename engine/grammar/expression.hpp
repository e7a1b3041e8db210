// What a rule matches, as a tree: the common form of JSON Schema, regular expressions and the frames of
// tool calls before they become automata. Immutable and shared; built and read by one thread.
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/compile_budget.hpp"

namespace orcd::engine::grammar {

using byte_set = std::bitset<256>;
using rule_id = std::uint32_t;

inline constexpr std::uint32_t unbounded = std::numeric_limits<std::uint32_t>::max();

/// Begins the spelling of something that is one token and not text: the byte occurs in no UTF-8.
inline constexpr char token_mark = '\xFF';

struct expression;
using expr = std::shared_ptr<const expression>;

struct expression {
  enum class kind { literal, bytes, sequence, choice, repeat, list, call, character, boundary, bounded };
  kind what = kind::literal;
  std::string text;         ///< literal
  byte_set bytes;           ///< bytes: one of them
  std::vector<expr> parts;  ///< sequence, choice, the one of repeat and bounded, the two of character
  /// repeat: how often; list: of how many parts; in a call of the string rule: characters; boundary: 0, 1
  std::uint32_t least = 0;
  std::uint32_t most = 0;      ///< the same; may be unbounded
  rule_id rule = 0;            ///< call
  std::vector<bool> required;  ///< list: for each part
  expr between;                ///< list: the separator
  bool open = false;           ///< list: the last part may come any number of times
  held_bytes cost;
};

[[nodiscard]] expr literal(std::string_view text);
[[nodiscard]] expr one_of(const byte_set& bytes);
[[nodiscard]] expr byte_range(unsigned char first, unsigned char last);
[[nodiscard]] expr sequence(std::vector<expr> parts);
/// One of the parts. Without parts it matches nothing at all.
[[nodiscard]] expr choice(std::vector<expr> parts);
[[nodiscard]] expr repeat(expr part, std::uint32_t least, std::uint32_t most);
[[nodiscard]] inline expr optional(expr part) {
  return repeat(std::move(part), 0, 1);
}
/// One character: a letter of a word, or another.
[[nodiscard]] expr character(expr of_word, expr other);
/// Nothing, between a letter of a word and what is none, an end of the whole among it; or where that is not
/// so.
[[nodiscard]] expr boundary(bool there);
/// What may have boundaries: made of characters, boundaries, sequences, choices and repetitions alone.
[[nodiscard]] expr bounded(expr whole);
/// The parts in this order with `between` between them; those not required may be left out. An open last part
/// counts once towards `least`, and each time towards `most`.
[[nodiscard]] expr list(std::vector<expr> parts, std::vector<bool> required, expr between, bool open = false,
                        std::uint32_t least = 0, std::uint32_t most = unbounded);
[[nodiscard]] expr call(rule_id rule);
/// A call of the string rule with bounds on the length, in characters.
[[nodiscard]] expr counted_call(rule_id rule, std::uint32_t least, std::uint32_t most);
/// The token with this text, where the vocabulary has it as a mark.
[[nodiscard]] expr token(std::string_view text);

/// The UTF-8 of one code point in [first, last]; surrogates are left out.
[[nodiscard]] expr code_points(char32_t first, char32_t last);

}  // namespace orcd::engine::grammar
