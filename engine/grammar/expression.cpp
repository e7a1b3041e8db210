#include "engine/grammar/expression.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

expr make(expression value) {
  compile_budget::work(6);
  // Includes the control block of std::make_shared.
  value.cost.add(sizeof(expression) + 16 + value.text.capacity() + value.parts.capacity() * sizeof(expr) +
                 value.required.capacity() / 8);
  return std::make_shared<const expression>(std::move(value));
}

expr of_parts(expression::kind what, std::vector<expr> parts) {
  expression out;
  out.what = what;
  out.parts = std::move(parts);
  return make(std::move(out));
}

unsigned char at(const std::string& text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// For encodings of equal length, byte by byte: both ends share a prefix; strictly between them, all bytes
// after the first different one are free.
expr between(const std::string& low, const std::string& high, std::size_t from) {
  if (from == low.size()) return literal("");
  if (at(low, from) == at(high, from)) {
    return sequence({byte_range(at(low, from), at(low, from)), between(low, high, from + 1)});
  }
  const auto bound = [&](const std::string& text, char fill) {
    return text.substr(0, from + 1) + std::string(text.size() - from - 1, fill);
  };
  std::vector<expr> out;
  unsigned first = at(low, from);
  unsigned last = at(high, from);
  if (low != bound(low, '\x80')) {
    out.push_back(
        sequence({byte_range(at(low, from), at(low, from)), between(low, bound(low, '\xBF'), from + 1)}));
    ++first;
  }
  expr tail;
  if (high != bound(high, '\xBF')) {
    tail =
        sequence({byte_range(at(high, from), at(high, from)), between(bound(high, '\x80'), high, from + 1)});
    --last;
  }
  if (first <= last) {
    const auto rest = static_cast<std::uint32_t>(low.size() - from - 1);
    out.push_back(sequence({byte_range(static_cast<unsigned char>(first), static_cast<unsigned char>(last)),
                            repeat(byte_range(0x80, 0xBF), rest, rest)}));
  }
  if (tail) out.push_back(tail);
  return choice(std::move(out));
}

}  // namespace

expr literal(std::string_view text) {
  expression out;
  out.text = text;
  return make(std::move(out));
}

expr one_of(const byte_set& bytes) {
  expression out;
  out.what = expression::kind::bytes;
  out.bytes = bytes;
  return make(std::move(out));
}

expr byte_range(unsigned char first, unsigned char last) {
  byte_set set;
  for (unsigned byte = first; byte <= last; ++byte) set.set(byte);
  return one_of(set);
}

expr sequence(std::vector<expr> parts) {
  return parts.size() == 1 ? parts.front() : of_parts(expression::kind::sequence, std::move(parts));
}

expr choice(std::vector<expr> parts) {
  return parts.size() == 1 ? parts.front() : of_parts(expression::kind::choice, std::move(parts));
}

expr repeat(expr part, std::uint32_t least, std::uint32_t most) {
  expression out;
  out.what = expression::kind::repeat;
  out.parts.push_back(std::move(part));
  out.least = least;
  out.most = most;
  return make(std::move(out));
}

expr character(expr of_word, expr other) {
  return of_parts(expression::kind::character, {std::move(of_word), std::move(other)});
}

expr boundary(bool there) {
  expression out;
  out.what = expression::kind::boundary;
  out.least = there ? 1 : 0;
  return make(std::move(out));
}

expr bounded(expr whole) {
  return of_parts(expression::kind::bounded, {std::move(whole)});
}

expr list(std::vector<expr> parts, std::vector<bool> required, expr between, bool open, std::uint32_t least,
          std::uint32_t most) {
  expression out;
  out.what = expression::kind::list;
  out.parts = std::move(parts);
  out.required = std::move(required);
  out.between = std::move(between);
  out.open = open;
  out.least = least;
  out.most = most;
  return make(std::move(out));
}

expr call(rule_id rule) {
  return counted_call(rule, 0, unbounded);
}

expr counted_call(rule_id rule, std::uint32_t least, std::uint32_t most) {
  expression out;
  out.what = expression::kind::call;
  out.rule = rule;
  out.least = least;
  out.most = most;
  return make(std::move(out));
}

expr token(std::string_view text) {
  return literal(std::string(1, token_mark) + std::string(text));
}

expr code_points(char32_t first, char32_t last) {
  struct span {
    char32_t first, last;
  };
  // Ranges by length of the encoding, without the surrogates.
  constexpr std::array<span, 5> parts{
      {{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}}};
  std::vector<expr> out;
  for (const span& part : parts) {
    const char32_t low = std::max(first, part.first);
    const char32_t high = std::min(last, part.last);
    if (low > high) continue;
    std::string from, to;
    utf8::append(from, low);
    utf8::append(to, high);
    out.push_back(between(from, to, 0));
  }
  return choice(std::move(out));
}

}  // namespace orcd::engine::grammar
