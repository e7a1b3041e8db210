#include "engine/grammar/lark.hpp"

#include <algorithm>
#include <boost/json/stream_parser.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/grammar_text.hpp"
#include "engine/grammar/lark_terms.hpp"
#include "engine/grammar/regex.hpp"

namespace orcd::engine::grammar {

namespace {

bool is_lower(char c) noexcept {
  return c >= 'a' && c <= 'z';
}
bool is_figure(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_of_name(char c) noexcept {
  return is_lower(c) || (c >= 'A' && c <= 'Z') || is_figure(c) || c == '_' || c == '-';
}
bool begins_name(char c) noexcept {
  return is_of_name(c) && !is_figure(c) && c != '-';
}
/// Terminals are in capitals.
bool is_terminal(std::string_view name) noexcept {
  return std::none_of(name.begin(), name.end(), is_lower);
}

class lark_parser {
 public:
  lark_parser(program_builder& builder, std::string_view text, inner_schema inner)
      : builder_(builder), text_(text), rules_(builder, text_), inner_(inner) {
    // Only a grammar that ignores something has places for it, after each terminal of a rule.
    if (text.find("%ignore") != std::string_view::npos) between_ = builder_.declare("1:1");
  }

  rule_id whole() {
    std::optional<rule_id> first;
    skip(true);
    while (!text_.at_end()) {
      if (text_.front() == '%') {
        directive();
      } else {
        const rule_id defined = definition();
        if (!first) first = defined;
      }
      skip(true);
    }
    rules_.check_defined();
    check_terminals();
    if (between_) builder_.define(*between_, repeat(choice(std::move(ignored_)), 0, unbounded));
    if (const auto* start = rules_.find("start")) return start->id;
    if (!first) text_.fail(0, "the grammar has no rule \"start\"");
    return *first;
  }

 private:
  struct alternative_parts {
    expr what;
    bool recurs = false;  ///< begins with the rule itself, which `what` leaves out
  };

  // Skips blanks and comments; ends of lines too where a definition cannot end there.
  void skip(bool lines) {
    const std::size_t from = text_.at();
    for (; !text_.at_end(); (void)text_.take_byte()) {
      if (text_.front() == '#' || text_.left().starts_with("//")) text_.skip_line();
      const char now = text_.front();
      if (text_.at_end() || (now != ' ' && now != '\t' && !(lines && (now == '\n' || now == '\r')))) break;
    }
    compile_budget::work(1 + (text_.at() - from) / 8);
  }

  std::string_view name() {
    const std::size_t from = text_.at();
    if (!begins_name(text_.front())) text_.fail(from, "the name of a rule is expected");
    while (is_of_name(text_.front()) && !text_.left().starts_with("->")) (void)text_.take_byte();
    return text_.from(from);
  }

  rule_id definition() {
    while (text_.front() == '!' || text_.front() == '?') (void)text_.take_byte();
    const std::size_t from = text_.at();
    const std::string_view defined = name();
    if (text_.front() == '{') text_.fail(from, "templates (" + shown(defined) + "{...}) are not served");
    if (text_.take("[")) attributes();
    if (text_.take(".")) priority();
    skip(false);
    if (text_.left().starts_with("::="))
      text_.fail(text_.at(), "\"::=\" is of GBNF, whose form the first rule does not have");
    if (!text_.take(":")) text_.fail(text_.at(), "':' is expected after the name of a rule");
    const rule_id id = rules_.define(defined, from);
    terminal_ = is_terminal(defined);
    defined_ = defined;
    uses_.clear();
    expr body = alternatives(0);
    end_of_line();
    builder_.define(id, body);
    if (terminal_) terminals_.push_back({id, from, std::move(uses_)});
    return id;
  }

  static std::string shown(std::string_view name) { return std::string(name.substr(0, 64)); }

  void priority() {
    (void)text_.take("-");
    if (!is_figure(text_.front())) text_.fail(text_.at(), "a priority is a whole number");
    while (is_figure(text_.front())) (void)text_.take_byte();
  }

  // What llguidance lets a rule say of itself: a capture changes nothing of the text.
  void attributes() {
    do {
      skip(true);
      const std::size_t from = text_.at();
      const std::string_view attribute = name();
      if (attribute != "capture")
        text_.fail(from, "the attribute " + quoted_name(attribute) + " is not served; only capture is");
      skip(true);
      if (text_.take("=")) {
        skip(true);
        if (text_.front() != '"') text_.fail(text_.at(), "a string is expected");
        (void)lark_string(text_);
        skip(true);
      }
    } while (text_.take(","));
    if (!text_.take("]")) text_.fail(text_.at(), "']' is expected");
  }

  void end_of_line() {
    skip(false);
    if (text_.at_end() || text_.front() == '\n' || text_.front() == '\r') return;
    text_.fail(text_.at(), text_.front() == ')' ? "there is no '(' for this ')'" : "this is not understood");
  }

  // Whether one more alternative comes, perhaps on a line of its own.
  bool take_bar(std::uint32_t depth) {
    const std::size_t before = text_.at();
    skip(true);
    if (text_.take("|")) return true;
    if (depth == 0) text_.go_to(before);
    return false;
  }

  // A rule whose alternatives begin with itself is the others, followed by what those have behind it.
  expr alternatives(std::uint32_t depth) {
    if (depth > grammar_depth_max) {
      text_.fail(text_.at(), "groups are nested more than " + std::to_string(grammar_depth_max) + " deep");
    }
    std::vector<expr> out, behind;
    skip(depth > 0);
    // A rule may begin with a bar on the next line.
    if (depth == 0 && (text_.front() == '\n' || text_.front() == '\r')) (void)take_bar(0);
    do {
      alternative_parts one = alternative(depth);
      (one.recurs ? behind : out).push_back(std::move(one.what));
    } while (take_bar(depth));
    expr first = choice(std::move(out));
    if (behind.empty()) return first;
    return sequence({std::move(first), repeat(choice(std::move(behind)), 0, unbounded)});
  }

  alternative_parts alternative(std::uint32_t depth) {
    std::vector<expr> out;
    bool recurs = false;
    skip(depth > 0);
    while (!text_.at_end()) {
      compile_budget::work(1);
      const std::size_t from = text_.at();
      if (text_.take("->")) {
        skip(depth > 0);
        (void)name();
        skip(depth > 0);
        break;
      }
      expr part = item(depth);
      if (!part) break;
      const std::size_t after = text_.at();
      const bool itself = depth == 0 && out.empty() && !recurs && text_.from(from) == defined_;
      part = repeated(std::move(part));
      if (itself && text_.at() == after && !terminal_) {
        recurs = true;
      } else {
        out.push_back(std::move(part));
      }
      skip(depth > 0);
    }
    return {sequence(std::move(out)), recurs};
  }

  // What a terminal in a rule is followed by.
  expr followed(expr terminal) const {
    return between_ && !terminal_ ? sequence({std::move(terminal), call(*between_)}) : terminal;
  }

  // Null where nothing that can be part of a sequence begins.
  expr item(std::uint32_t depth) {
    const std::size_t from = text_.at();
    const char c = text_.front();
    if (c == '"' || c == '\'') {
      const bool empty = text_.left().starts_with("\"\"") || text_.left().starts_with("''");
      expr made = lark_string(text_);
      return empty ? made : followed(std::move(made));
    }
    if (c == '/') return followed(lark_pattern(text_));
    if (text_.take("(")) {
      expr inside = alternatives(depth + 1);
      if (!text_.take(")")) text_.fail(from, "there is no ')' for this '('");
      return inside;
    }
    if (text_.take("[")) {
      expr inside = alternatives(depth + 1);
      if (!text_.take("]")) text_.fail(from, "there is no ']' for this '['");
      return optional(std::move(inside));
    }
    if (c == '<')
      text_.fail(from,
                 "references to tokens (<name>, <[id]>) are not served; write the token's text as a string");
    if (text_.take("%json")) return followed(schema(from));
    if (c == '%')
      text_.fail(from, quoted_name(word_at(from)) + " is not served inside a rule; only %json is");
    if (c == '!' || c == '?' || c == '*' || c == '+' || c == '~' || c == '{')
      text_.fail(from, "there is nothing to repeat");
    return begins_name(c) ? reference(from) : nullptr;
  }

  std::string_view word_at(std::size_t from) {
    (void)text_.take_byte();
    while (is_of_name(text_.front())) (void)text_.take_byte();
    return text_.from(from);
  }

  expr reference(std::size_t from) {
    const std::string_view used = name();
    if (text_.front() == '{' && !is_count(text_.left().substr(1)))
      text_.fail(from, "templates (" + shown(used) + "{...}) are not served");
    const rule_id id = rules_.at(used, from).id;
    if (!is_terminal(used)) {
      if (terminal_) text_.fail(from, "a terminal cannot use the rule " + quoted_name(used));
      return call(id);
    }
    if (terminal_) uses_.push_back(id);
    return followed(call(id));
  }

  static bool is_count(std::string_view text) noexcept {
    const std::size_t at = text.find_first_not_of(" \t");
    return at != std::string_view::npos && (is_figure(text[at]) || text[at] == ',');
  }

  expr repeated(expr part) {
    const std::size_t before = text_.at();
    skip(false);
    const std::size_t from = text_.at();
    std::uint32_t least = 0, most = unbounded;
    if (text_.take("+")) {
      least = 1;
    } else if (text_.take("?")) {
      most = 1;
    } else if (text_.take("~")) {
      skip(false);
      least = most = text_.repeats();
      skip(false);
      if (text_.take("..")) {
        skip(false);
        most = text_.repeats();
      }
    } else if (text_.take("{")) {
      const auto counts = text_.repeats_in_braces([this] { skip(false); }, false);
      least = counts.least;
      most = counts.most;
    } else if (!text_.take("*")) {
      text_.go_to(before);
      return part;
    }
    if (least > most) text_.fail(from, "the repetition's least number is above its most");
    return repeat(std::move(part), least, most);
  }

  boost::json::value json_here() {
    const std::size_t from = text_.at();
    boost::system::error_code ec;
    boost::json::parse_options options;
    options.max_depth = std::size_t{2} * grammar_depth_max;
    boost::json::stream_parser parser(compile_budget::json(), options);
    std::size_t taken = parser.write_some(text_.left().data(), text_.left().size(), ec);
    if (!ec && !parser.done()) parser.finish(ec);
    if (ec) text_.fail(from, "JSON is expected here: " + ec.message());
    // The ends of lines behind it end the definition.
    while (std::string_view(" \t\r\n").find(text_.left()[taken - 1]) != std::string_view::npos) --taken;
    text_.go_to(from + taken);
    return parser.release();
  }

  expr schema(std::size_t from) {
    if (terminal_) text_.fail(from, "%json cannot be part of a terminal");
    skip(true);
    const boost::json::value what = json_here();
    try {
      return inner_(builder_, what);
    } catch (const grammar_failure& failure) {
      text_.fail(from, "%json: " + failure.where + ": " + failure.what);
    }
  }

  void directive() {
    const std::size_t from = text_.at();
    const std::string_view what = word_at(from);
    skip(false);
    if (what == "%ignore") {
      terminal_ = true;
      defined_ = {};
      ignored_.push_back(alternatives(0));
    } else if (what == "%import") {
      import_terminals();
    } else if (what == "%llguidance") {
      const boost::json::value options = json_here();
      if (!options.is_object() || !options.get_object().empty())
        text_.fail(from, "the options of %llguidance are not served");
    } else {
      text_.fail(from, quoted_name(what) + " is not served; %ignore and %import are");
    }
    end_of_line();
  }

  // "common.NAME", with or without another name, or "common (NAME, NAME)".
  void import_terminals() {
    const std::size_t from = text_.at();
    const bool common = name() == "common";
    if (!common) text_.fail(from, "only terminals of \"common\" can be imported");
    if (text_.take(".")) {
      const std::size_t at = text_.at();
      std::string_view known = name(), own = known;
      skip(false);
      if (text_.take("->")) {
        skip(false);
        own = name();
      }
      return define_common(known, own, at);
    }
    skip(false);
    if (!text_.take("(")) text_.fail(text_.at(), "\"common.NAME\" or \"common (NAME, ...)\" is expected");
    do {
      skip(true);
      const std::size_t at = text_.at();
      const std::string_view known = name();
      define_common(known, known, at);
      skip(true);
    } while (text_.take(","));
    if (!text_.take(")")) text_.fail(text_.at(), "')' is expected");
  }

  void define_common(std::string_view known, std::string_view own, std::size_t at) {
    const std::string_view what = common_terminal(known);
    if (what.empty()) text_.fail(at, "\"common\" has no terminal " + quoted_name(known) + " here");
    if (!is_terminal(own)) text_.fail(at, "a terminal has a name in capitals");
    builder_.define(rules_.define(own, at), text_matching(what));
  }

  // Refuses terminals that use each other in a circle: those that are left when each that uses no other is
  // taken out, again and again.
  void check_terminals() {
    std::map<rule_id, std::size_t> left;  // by rule: how many uses are not taken out
    std::map<rule_id, std::vector<rule_id>> used_by;
    std::vector<rule_id> open;
    for (const terminal_uses& one : terminals_) left.emplace(one.id, 0);
    for (const terminal_uses& one : terminals_) {
      for (const rule_id used : one.uses) {
        if (!left.contains(used)) continue;  // an imported one
        ++left[one.id];
        used_by[used].push_back(one.id);
      }
      compile_budget::work(4 + 4 * one.uses.size());
      if (left[one.id] == 0) open.push_back(one.id);
    }
    std::size_t taken = 0;
    for (; !open.empty(); ++taken) {
      const rule_id id = open.back();
      open.pop_back();
      for (const rule_id user : used_by[id]) {
        if (--left[user] == 0) open.push_back(user);
      }
    }
    if (taken == terminals_.size()) return;
    const auto circular = std::find_if(terminals_.begin(), terminals_.end(),
                                       [&](const terminal_uses& one) { return left[one.id] > 0; });
    text_.fail(circular->from, "a terminal cannot refer to itself");
  }

  struct terminal_uses {
    rule_id id = 0;
    std::size_t from = 0;
    std::vector<rule_id> uses;
  };

  program_builder& builder_;
  grammar_text text_;
  named_rules rules_;
  inner_schema inner_;
  std::optional<rule_id> between_;
  std::vector<expr> ignored_;
  std::vector<terminal_uses> terminals_;
  // Of the definition that is being parsed.
  bool terminal_ = false;
  std::string_view defined_;
  std::vector<rule_id> uses_;
};

}  // namespace

bool is_lark(std::string_view text) noexcept {
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with("#") && !text.starts_with("//")) break;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  // No rule of GBNF begins so.
  if (text.starts_with("%") || text.starts_with("!") || text.starts_with("?")) return true;
  if (text.empty() || !begins_name(text.front())) return false;
  text.remove_prefix(
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_of_name) - text.begin()));
  if (text.starts_with(".") || text.starts_with("{") || text.starts_with("[")) return true;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.starts_with(":") && !text.starts_with("::=");
}

rule_id define_lark(program_builder& builder, std::string_view text, inner_schema inner) {
  return lark_parser(builder, text, inner).whole();
}

}  // namespace orcd::engine::grammar
