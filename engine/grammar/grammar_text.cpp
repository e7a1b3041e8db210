#include "engine/grammar/grammar_text.hpp"

#include <algorithm>
#include <utility>

#include "engine/grammar/character_sets.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

std::string quoted_name(std::string_view name) {
  constexpr std::size_t shown_max = 64;
  return "\"" + std::string(name.substr(0, shown_max)) + "\"";
}

grammar_text::grammar_text(std::string_view text) : text_(text) {
  if (text_.size() > grammar_bytes_max) {
    fail(0, "the grammar has " + std::to_string(text_.size()) + " bytes, the limit is " +
                std::to_string(grammar_bytes_max));
  }
}

// Goes on from the place before, where it can: rules come in order, and there may be thousands.
std::string grammar_text::place(std::size_t at) {
  if (at < placed_) {
    placed_ = 0;
    line_ = column_ = 1;
  }
  for (; placed_ < at; ++placed_) {
    ++column_;
    if (text_[placed_] == '\n') {
      ++line_;
      column_ = 1;
    }
  }
  return std::to_string(line_) + ":" + std::to_string(column_);
}

void grammar_text::fail(std::size_t at, std::string what) {
  throw grammar_failure{place(at), std::move(what)};
}

void grammar_text::skip_line() noexcept {
  at_ = std::min(text_.find('\n', at_), text_.size());
}

char32_t grammar_text::code() {
  if (at_end()) fail(at_, "the grammar ends too early");
  const auto [code, size] = utf8::decode(text_.data() + at_, text_.data() + text_.size());
  if (code == utf8::invalid) fail(at_, "the grammar is not UTF-8");
  at_ += size;
  return code;
}

char32_t grammar_text::hex(std::size_t from, int digits) {
  std::uint64_t out = 0;
  for (; digits > 0; --digits) {
    const char c = front();
    const char lower = static_cast<char>(c | 0x20);
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit && (lower < 'a' || lower > 'f')) fail(from, "the escape has too few hexadecimal digits");
    out = out * 16 + static_cast<std::uint64_t>(is_digit ? c - '0' : lower - 'a' + 10);
    ++at_;
  }
  if (out > last_code || (out >= 0xD800 && out <= 0xDFFF)) fail(from, "the escape is no code point");
  return static_cast<char32_t>(out);
}

std::uint32_t grammar_text::repeats() {
  const std::size_t begin = at_;
  std::uint32_t out = 0;
  while (front() >= '0' && front() <= '9') {
    out = out * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
    if (out > grammar_repeats_max)
      fail(begin, "more than " + std::to_string(grammar_repeats_max) + " repetitions are not served");
  }
  if (at_ == begin) fail(begin, "a number is expected");
  return out;
}

named_rules::known& named_rules::at(std::string_view name, std::size_t place) {
  compile_budget::work(8);
  const auto found = rules_.find(name);
  if (found != rules_.end()) return found->second;
  // Declared with the place of its definition once that is known; until then with that of its first use.
  return rules_.emplace(name, known{builder_.declare(text_.place(place)), place, false}).first->second;
}

rule_id named_rules::define(std::string_view name, std::size_t place) {
  known& rule = at(name, place);
  if (std::exchange(rule.defined, true))
    text_.fail(place, "the rule " + quoted_name(name) + " is defined twice");
  return rule.id;
}

const named_rules::known* named_rules::find(std::string_view name) const {
  const auto found = rules_.find(name);
  return found == rules_.end() ? nullptr : &found->second;
}

void named_rules::check_defined() {
  for (const auto& [name, rule] : rules_) {
    if (!rule.defined) text_.fail(rule.first_use, "the rule " + quoted_name(name) + " is not defined");
  }
}

}  // namespace orcd::engine::grammar
