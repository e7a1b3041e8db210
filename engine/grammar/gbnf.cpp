#include "engine/grammar/gbnf.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/character_sets.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

/// The most bytes of a name in a message.
constexpr std::size_t shown_max = 64;

std::string shown(std::string_view name) {
  return "\"" + std::string(name.substr(0, shown_max)) + "\"";
}

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class parser {
 public:
  parser(program_builder& builder, std::string_view text) : builder_(builder), text_(text) {}

  rule_id whole() {
    if (text_.size() > gbnf_bytes_max) {
      fail(0, "the grammar has " + std::to_string(text_.size()) + " bytes, the limit is " +
                  std::to_string(gbnf_bytes_max));
    }
    skip(true);
    while (!at_end()) definition();
    const auto root = rules_.find("root");
    for (const auto& [name, known] : rules_) {
      if (!known.defined) fail(known.first_use, "the rule " + shown(name) + " is not defined");
    }
    if (root == rules_.end()) fail(0, "the grammar has no rule \"root\"");
    return root->second.id;
  }

 private:
  struct known_rule {
    rule_id id = 0;
    std::size_t first_use = 0;
    bool defined = false;
  };

  // Goes on from the place before, where it can: rules come in order, and there may be thousands.
  [[nodiscard]] std::string place(std::size_t at) {
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
  [[noreturn]] void fail(std::size_t at, std::string what) {
    throw grammar_failure{place(at), std::move(what)};
  }

  [[nodiscard]] bool at_end() const noexcept { return at_ == text_.size(); }
  [[nodiscard]] char front() const noexcept { return at_end() ? '\0' : text_[at_]; }
  [[nodiscard]] std::string_view left() const noexcept { return text_.substr(at_); }
  bool take(std::string_view what) {
    if (!left().starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  // Skips blanks and comments; ends of lines too where the rule cannot end there.
  void skip(bool lines) {
    const std::size_t from = at_;
    for (; !at_end(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_end()) break;
      }
      const char now = text_[at_];
      if (now != ' ' && now != '\t' && !(lines && (now == '\n' || now == '\r'))) break;
    }
    compile_budget::work(1 + (at_ - from) / 8);
  }

  std::string_view name() {
    const std::size_t from = at_;
    while (!at_end() && is_name_character(text_[at_])) ++at_;
    if (at_ == from) fail(from, "the name of a rule is expected");
    return text_.substr(from, at_ - from);
  }

  known_rule& rule_named(std::string_view name, std::size_t at) {
    compile_budget::work(8);
    const auto found = rules_.find(name);
    if (found != rules_.end()) return found->second;
    // Declared with the place of its definition once that is known; until then with that of its first use.
    return rules_.emplace(name, known_rule{builder_.declare(place(at)), at, false}).first->second;
  }

  void definition() {
    const std::size_t from = at_;
    const std::string_view rule_name = name();
    skip(false);
    if (!take("::=")) {
      if (front() == ':')
        fail(at_, "this is Lark's form (name: ...); grammars are served in GBNF (root ::= ...)");
      fail(at_, "\"::=\" is expected after the name of a rule");
    }
    known_rule& rule = rule_named(rule_name, from);
    if (std::exchange(rule.defined, true)) fail(from, "the rule " + shown(rule_name) + " is defined twice");
    const rule_id id = rule.id;
    skip(true);
    const expr body = alternatives(0);
    if (!at_end() && front() != '\n' && front() != '\r') {
      fail(at_, front() == ')' ? "there is no '(' for this ')'" : "this is not understood");
    }
    builder_.define(id, body);
    skip(true);
  }

  expr alternatives(std::uint32_t depth) {
    if (depth > gbnf_depth_max) {
      fail(at_, "groups are nested more than " + std::to_string(gbnf_depth_max) + " deep");
    }
    std::vector<expr> out;
    do {
      skip(true);
      out.push_back(alternative(depth));
    } while (take("|"));
    return choice(std::move(out));
  }

  expr alternative(std::uint32_t depth) {
    std::vector<expr> out;
    while (!at_end()) {
      const std::size_t from = at_;
      expr part = item(depth);
      if (!part) break;
      out.push_back(quantified(std::move(part)));
      skip(depth > 0);
      compile_budget::work(1);
      if (at_ == from) break;
    }
    return sequence(std::move(out));
  }

  // Null where nothing that can be part of a sequence begins.
  expr item(std::uint32_t depth) {
    const std::size_t from = at_;
    if (take("\"")) return quoted_text(from);
    if (take("[")) return character_class(from);
    if (take("(")) {
      expr inside = alternatives(depth + 1);
      if (!take(")")) fail(from, "there is no ')' for this '('");
      return inside;
    }
    if (take(".")) return code_points(0, last_code);
    if (front() == '<' || left().starts_with("!<")) {
      fail(from, "references to tokens (<[id]>, <text>) are not served; write the token's text as a literal");
    }
    if (!at_end() && is_name_character(front())) return call(rule_named(name(), from).id);
    if (std::string_view("*+?{").find(front()) != std::string_view::npos && !at_end())
      fail(from, "there is nothing to repeat");
    return nullptr;
  }

  expr quantified(expr part) {
    for (;;) {
      const std::size_t from = at_;
      std::uint32_t least = 0, most = unbounded;
      if (take("+")) {
        least = 1;
      } else if (take("?")) {
        most = 1;
      } else if (take("{")) {
        braces(from, least, most);
      } else if (!take("*")) {
        return part;
      }
      compile_budget::work(1);
      part = repeat(std::move(part), least, most);
    }
  }

  void braces(std::size_t from, std::uint32_t& least, std::uint32_t& most) {
    skip(false);
    least = most = number();
    skip(false);
    if (take(",")) {
      skip(false);
      most = front() == '}' ? unbounded : number();
      skip(false);
    }
    if (!take("}")) fail(at_, "'}' is expected");
    if (least > most) fail(from, "the repetition's least number is above its most");
  }

  std::uint32_t number() {
    const std::size_t from = at_;
    std::uint32_t out = 0;
    while (front() >= '0' && front() <= '9') {
      out = out * 10 + static_cast<std::uint32_t>(text_[at_++] - '0');
      if (out > gbnf_repeats_max)
        fail(from, "more than " + std::to_string(gbnf_repeats_max) + " repetitions are not served");
    }
    if (at_ == from) fail(from, "a number is expected");
    return out;
  }

  expr quoted_text(std::size_t from) {
    std::string out;
    while (!take("\"")) {
      if (at_end() || front() == '\n') fail(from, "the literal has no closing '\"'");
      utf8::append(out, character());
    }
    return literal(out);
  }

  expr character_class(std::size_t from) {
    const bool negated = take("^");
    code_set set;
    while (!take("]")) {
      if (at_end()) fail(from, "the class has no closing ']'");
      const std::size_t at = at_;
      const char32_t first = character();
      char32_t last = first;
      if (left().size() > 1 && front() == '-' && text_[at_ + 1] != ']') {
        ++at_;
        last = character();
      }
      if (last < first) fail(at, "the range's first character is above its last");
      set.push_back({first, last});
      compile_budget::work(2);
    }
    if (set.empty() && !negated) fail(from, "the class has no characters");
    set = complement(std::move(set));
    if (!negated) set = complement(std::move(set));
    std::vector<expr> out;
    for (const code_range& range : set) out.push_back(code_points(range.first, range.last));
    return choice(std::move(out));
  }

  // One character of a literal or class, with its escape.
  char32_t character() {
    const std::size_t from = at_;
    if (!take("\\")) {
      if (at_end()) fail(from, "the grammar ends too early");
      const auto [code, size] = utf8::decode(text_.data() + at_, text_.data() + text_.size());
      if (code == utf8::invalid) fail(from, "the grammar is not UTF-8");
      at_ += size;
      return code;
    }
    if (at_end()) fail(from, "the grammar ends too early");
    const char c = text_[at_++];
    switch (c) {
      case 'x': return hex(from, 2);
      case 'u': return hex(from, 4);
      case 'U': return hex(from, 8);
      case 't': return '\t';
      case 'r': return '\r';
      case 'n': return '\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<char32_t>(c);
      default: break;
    }
    fail(from, "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
  }

  char32_t hex(std::size_t from, int length) {
    std::uint64_t out = 0;
    for (; length > 0; --length) {
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

  program_builder& builder_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t placed_ = 0, line_ = 1, column_ = 1;
  std::map<std::string_view, known_rule, std::less<>> rules_;
};

}  // namespace

rule_id define_gbnf(program_builder& builder, std::string_view text) {
  return parser(builder, text).whole();
}

}  // namespace orcd::engine::grammar
