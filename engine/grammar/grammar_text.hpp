// The text of a grammar while it is parsed, for GBNF and Lark: where a parser is, what comes next, and
// refusals at a line and a column. Throws grammar_failure whose place is line:column, in bytes from 1:1. One
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "engine/grammar/program_builder.hpp"

namespace orcd::engine::grammar {

inline constexpr std::size_t grammar_bytes_max = 64U << 10U;
inline constexpr std::uint32_t grammar_depth_max = 64;
inline constexpr std::uint32_t grammar_repeats_max = 2'000;

/// A name as messages show it: in quotes and short.
[[nodiscard]] std::string quoted_name(std::string_view name);

class grammar_text {
 public:
  /// `text` must outlive it. Refuses more than grammar_bytes_max bytes.
  explicit grammar_text(std::string_view text);

  [[nodiscard]] std::string place(std::size_t at);
  [[noreturn]] void fail(std::size_t at, std::string what);

  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  void go_to(std::size_t at) noexcept { at_ = at; }
  [[nodiscard]] bool at_end() const noexcept { return at_ == text_.size(); }
  [[nodiscard]] char front() const noexcept { return at_end() ? '\0' : text_[at_]; }
  /// The next byte; nothing at the end.
  char take_byte() noexcept { return at_end() ? '\0' : text_[at_++]; }
  [[nodiscard]] std::string_view left() const noexcept { return text_.substr(at_); }
  [[nodiscard]] std::string_view from(std::size_t begin) const noexcept {
    return text_.substr(begin, at_ - begin);
  }
  bool take(std::string_view what) noexcept {
    if (!left().starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  /// To the end of the line, which is not taken.
  void skip_line() noexcept;

  /// The next code point.
  [[nodiscard]] char32_t code();
  /// A code point of so many hexadecimal digits; `from` is where its escape begins.
  [[nodiscard]] char32_t hex(std::size_t from, int digits);
  /// How often something may come.
  [[nodiscard]] std::uint32_t repeats();
  struct repetition {
    std::uint32_t least = 0;
    std::uint32_t most = 0;  ///< `unbounded` where there is no such number
  };
  /// What stands behind '{': n}, n,} or n,m}, and ,m} where the least may be left out. `skip` takes the white
  /// space that may be around each.
  template <class Skip>
  [[nodiscard]] repetition repeats_in_braces(const Skip& skip, bool needs_least);

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t placed_ = 0, line_ = 1, column_ = 1;
};

template <class Skip>
grammar_text::repetition grammar_text::repeats_in_braces(const Skip& skip, bool needs_least) {
  repetition out{0, unbounded};
  skip();
  if (needs_least || front() != ',') out.least = out.most = repeats();
  skip();
  if (take(",")) {
    skip();
    out.most = front() == '}' ? unbounded : repeats();
    skip();
  }
  if (!take("}")) fail(at_, "'}' is expected");
  return out;
}

/// The rules of a grammar by name, each declared where it is met first.
class named_rules {
 public:
  struct known {
    rule_id id = 0;
    std::size_t first_use = 0;
    bool defined = false;
  };
  named_rules(program_builder& builder, grammar_text& text) : builder_(builder), text_(text) {}

  known& at(std::string_view name, std::size_t place);
  /// The rule, which is defined here and must not be elsewhere.
  [[nodiscard]] rule_id define(std::string_view name, std::size_t place);
  [[nodiscard]] const known* find(std::string_view name) const;
  /// Refuses a rule that is used and not defined.
  void check_defined();

 private:
  program_builder& builder_;
  grammar_text& text_;
  std::map<std::string_view, known, std::less<>> rules_;
};

}  // namespace orcd::engine::grammar
