#include "engine/grammar/gbnf.hpp"

#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/character_sets.hpp"
#include "engine/grammar/grammar_text.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class parser {
 public:
  parser(program_builder& builder, std::string_view text)
      : builder_(builder), text_(text), rules_(builder, text_) {}

  rule_id whole() {
    skip(true);
    while (!text_.at_end()) definition();
    rules_.check_defined();
    const auto* root = rules_.find("root");
    if (root == nullptr) text_.fail(0, "the grammar has no rule \"root\"");
    return root->id;
  }

 private:
  // Skips blanks and comments; ends of lines too where the rule cannot end there.
  void skip(bool lines) {
    const std::size_t from = text_.at();
    for (; !text_.at_end(); (void)text_.take_byte()) {
      if (text_.front() == '#') text_.skip_line();
      const char now = text_.front();
      if (text_.at_end() || (now != ' ' && now != '\t' && !(lines && (now == '\n' || now == '\r')))) break;
    }
    compile_budget::work(1 + (text_.at() - from) / 8);
  }

  std::string_view name() {
    const std::size_t from = text_.at();
    while (!text_.at_end() && is_name_character(text_.front())) (void)text_.take_byte();
    if (text_.at() == from) text_.fail(from, "the name of a rule is expected");
    return text_.from(from);
  }

  void definition() {
    const std::size_t from = text_.at();
    const std::string_view rule_name = name();
    skip(false);
    if (!text_.take("::=")) text_.fail(text_.at(), "\"::=\" is expected after the name of a rule");
    const rule_id id = rules_.define(rule_name, from);
    skip(true);
    const expr body = alternatives(0);
    if (!text_.at_end() && text_.front() != '\n' && text_.front() != '\r') {
      text_.fail(text_.at(),
                 text_.front() == ')' ? "there is no '(' for this ')'" : "this is not understood");
    }
    builder_.define(id, body);
    skip(true);
  }

  expr alternatives(std::uint32_t depth) {
    if (depth > grammar_depth_max) {
      text_.fail(text_.at(), "groups are nested more than " + std::to_string(grammar_depth_max) + " deep");
    }
    std::vector<expr> out;
    do {
      skip(true);
      out.push_back(alternative(depth));
    } while (text_.take("|"));
    return choice(std::move(out));
  }

  expr alternative(std::uint32_t depth) {
    std::vector<expr> out;
    while (!text_.at_end()) {
      const std::size_t from = text_.at();
      expr part = item(depth);
      if (!part) break;
      out.push_back(quantified(std::move(part)));
      skip(depth > 0);
      compile_budget::work(1);
      if (text_.at() == from) break;
    }
    return sequence(std::move(out));
  }

  // Null where nothing that can be part of a sequence begins.
  expr item(std::uint32_t depth) {
    const std::size_t from = text_.at();
    if (text_.take("\"")) return quoted_text(from);
    if (text_.take("[")) return character_class(from);
    if (text_.take("(")) {
      expr inside = alternatives(depth + 1);
      if (!text_.take(")")) text_.fail(from, "there is no ')' for this '('");
      return inside;
    }
    if (text_.take(".")) return code_points(0, last_code);
    if (text_.front() == '<' || text_.left().starts_with("!<")) {
      text_.fail(from,
                 "references to tokens (<[id]>, <text>) are not served; write the token's text as a literal");
    }
    if (!text_.at_end() && is_name_character(text_.front())) return call(rules_.at(name(), from).id);
    if (std::string_view("*+?{").find(text_.front()) != std::string_view::npos && !text_.at_end())
      text_.fail(from, "there is nothing to repeat");
    return nullptr;
  }

  expr quantified(expr part) {
    for (std::uint32_t depth = 0;; ++depth) {
      const std::size_t from = text_.at();
      std::uint32_t least = 0, most = unbounded;
      if (text_.take("+")) {
        least = 1;
      } else if (text_.take("?")) {
        most = 1;
      } else if (text_.take("{")) {
        const auto counts = text_.repeats_in_braces([this] { skip(false); }, true);
        least = counts.least;
        most = counts.most;
      } else if (!text_.take("*")) {
        return part;
      }
      if (least > most) text_.fail(from, "the repetition's least number is above its most");
      // Each is a level of the expression, as a group is.
      if (depth >= grammar_depth_max) {
        text_.fail(from, "repetitions are nested more than " + std::to_string(grammar_depth_max) + " deep");
      }
      compile_budget::work(1);
      part = repeat(std::move(part), least, most);
    }
  }

  expr quoted_text(std::size_t from) {
    std::string out;
    while (!text_.take("\"")) {
      if (text_.at_end() || text_.front() == '\n') text_.fail(from, "the literal has no closing '\"'");
      utf8::append(out, character());
    }
    return literal(out);
  }

  expr character_class(std::size_t from) {
    const bool negated = text_.take("^");
    code_set set;
    while (!text_.take("]")) {
      if (text_.at_end()) text_.fail(from, "the class has no closing ']'");
      const std::size_t at = text_.at();
      const char32_t first = character();
      char32_t last = first;
      if (text_.left().size() > 1 && text_.front() == '-' && text_.left()[1] != ']') {
        (void)text_.take_byte();
        last = character();
      }
      if (last < first) text_.fail(at, "the range's first character is above its last");
      set.push_back({first, last});
      compile_budget::work(2);
    }
    if (set.empty() && !negated) text_.fail(from, "the class has no characters");
    set = complement(std::move(set));
    if (!negated) set = complement(std::move(set));
    std::vector<expr> out;
    for (const code_range& range : set) out.push_back(code_points(range.first, range.last));
    return choice(std::move(out));
  }

  // One character of a literal or class, with its escape.
  char32_t character() {
    const std::size_t from = text_.at();
    if (!text_.take("\\")) return text_.code();
    const char c = text_.take_byte();
    switch (c) {
      case 'x': return text_.hex(from, 2);
      case 'u': return text_.hex(from, 4);
      case 'U': return text_.hex(from, 8);
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
    text_.fail(from,
               "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH");
  }

  program_builder& builder_;
  grammar_text text_;
  named_rules rules_;
};

}  // namespace

rule_id define_gbnf(program_builder& builder, std::string_view text) {
  return parser(builder, text).whole();
}

}  // namespace orcd::engine::grammar
