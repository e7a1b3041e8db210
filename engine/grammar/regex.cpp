#include "engine/grammar/regex.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "engine/grammar/character_sets.hpp"
#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/program_builder.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

/// How one character in [first, last] is spelled in the output.
using spelling = expr (*)(char32_t first, char32_t last);

class parser {
 public:
  /// Failures are at `where`, or at the offset in the pattern where it is null.
  parser(std::string_view pattern, const std::string* where, spelling spell, pattern_flags flags = {})
      : all_(pattern),
        left_(pattern),
        where_(where),
        spell_(spell),
        bounded_(has_boundaries(pattern)),
        flags_(flags) {
    if (pattern.size() > pattern_bytes_max) {
      fail("the pattern has " + std::to_string(pattern.size()) + " bytes, the limit is " +
           std::to_string(pattern_bytes_max));
    }
  }

  /// Where the pattern is searched for, anything may come before and after what is not anchored.
  expr whole(bool searched) {
    std::vector<expr> out;
    if (!searched) leading_flags();
    const expr anything = searched ? repeat(any_of({{0, last_code}}), 0, unbounded) : literal("");
    do {
      const bool from_start = take('^');
      expr body = branch(0);
      const bool to_end = take('$');
      if (flags_.part && (from_start || to_end)) refuse("an anchor");
      if (!left_.empty() && left_.front() != '|')
        fail("the pattern has an unmatched ')' or a '$' that is not last");
      std::vector<expr> parts;
      if (!from_start) parts.push_back(anything);
      parts.push_back(std::move(body));
      if (!to_end) parts.push_back(anything);
      out.push_back(sequence(std::move(parts)));
    } while (take('|'));
    return bounded_ ? bounded(choice(std::move(out))) : choice(std::move(out));
  }

 private:
  /// Whether it has \b or \B outside of classes.
  static bool has_boundaries(std::string_view pattern) {
    bool in_class = false;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i] == '\\') {
        ++i;
        if (!in_class && i < pattern.size() && (pattern[i] == 'b' || pattern[i] == 'B')) return true;
      } else if (pattern[i] == '[' || pattern[i] == ']') {
        in_class = pattern[i] == '[';
      }
    }
    return false;
  }

  [[noreturn]] void fail(const std::string& what) const {
    if (where_ != nullptr) throw grammar_failure{*where_, what};
    throw grammar_failure{"offset " + std::to_string(all_.size() - left_.size()), what};
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail("the pattern uses " + what + ", which is not supported");
  }

  bool take(char c) {
    if (left_.empty() || left_.front() != c) return false;
    left_.remove_prefix(1);
    return true;
  }
  char32_t take_code() {
    if (left_.empty()) fail("the pattern ends too early");
    const auto [code, size] = utf8::decode(left_.data(), left_.data() + left_.size());
    if (code == utf8::invalid) fail("the pattern is not UTF-8");
    left_.remove_prefix(size);
    return code;
  }

  // Cached, because patterns often repeat a class.
  expr any_of(const code_set& set) {
    compile_budget::work(1 + set.size());
    expr& known = classes_[set];
    if (known) return known;
    if (!bounded_) return known = spelled(set);
    const code_set others = complement(word_codes());
    return known = character(spelled(common(set, word_codes())), spelled(common(set, others)));
  }
  expr spelled(const code_set& set) const {
    std::vector<expr> out;
    for (const code_range& range : set) out.push_back(spell_(range.first, range.last));
    return choice(std::move(out));
  }
  static code_set common(const code_set& a, const code_set& b) {
    code_set outside = complement(a);
    const code_set more = complement(b);
    outside.insert(outside.end(), more.begin(), more.end());
    return complement(std::move(outside));
  }

  expr alternatives(std::uint32_t depth) {
    std::vector<expr> out;
    do {
      out.push_back(branch(depth));
    } while (take('|'));
    return choice(std::move(out));
  }

  expr branch(std::uint32_t depth) {
    if (depth > pattern_depth_max) {
      fail("the pattern's groups are nested more than " + std::to_string(pattern_depth_max) + " deep");
    }
    std::vector<expr> out;
    while (!left_.empty() && left_.front() != '|' && left_.front() != ')' &&
           !(left_ == "$" || left_.starts_with("$|"))) {
      if (left_.starts_with("\\b") || left_.starts_with("\\B")) {
        if (flags_.part) refuse("the end of a word");
        out.push_back(boundary(left_[1] == 'b'));
        left_.remove_prefix(2);
      } else {
        out.push_back(quantified(atom(depth)));
      }
    }
    return sequence(std::move(out));
  }

  expr atom(std::uint32_t depth) {
    const char c = left_.front();
    if (c == '(') return group(depth);
    if (c == '[') return any_of(bracket());
    if (c == '^' || c == '$') refuse("an anchor inside");
    if (c == '*' || c == '+' || c == '?' || c == '{') fail("the pattern repeats nothing");
    if (take('.')) return any_of(dot());
    if (take('\\')) return any_of(cased(escape(false)));
    return any_of(cased(one(take_code())));
  }

  [[nodiscard]] code_set dot() const {
    if (flags_.any_code) return {{0, last_code}};
    return flags_.part ? complement({{'\n', '\n'}}) : complement(line_end_codes());
  }
  // Letters alone have cases: what escapes and properties name stays.
  [[nodiscard]] code_set cased(code_set set) const {
    return set.size() == 1 && set.front().first == set.front().last ? cased(set.front()) : set;
  }
  [[nodiscard]] code_set cased(code_range range) const {
    return flags_.any_case ? with_other_cases({range}) : code_set{range};
  }

  // Flags as in (?is-m: or (?is), after the question mark; whether there were any.
  bool take_flags(char end) {
    const std::size_t size = std::min(left_.find_first_not_of("ims-"), left_.size());
    if (size == 0 || size == left_.size() || left_[size] != end) return false;
    bool on = true;
    for (const char c : left_.substr(0, size)) {
      if (c == 'm') refuse("the flag m");
      if (c == '-') on = false;
      if (c == 'i') flags_.any_case = on;
      if (c == 's') flags_.any_code = on;
    }
    left_.remove_prefix(size + 1);
    return true;
  }
  void leading_flags() {
    const std::string_view before = left_;
    if (take('(') && take('?') && take_flags(')')) return;
    left_ = before;
  }

  expr group(std::uint32_t depth) {
    (void)take('(');
    const pattern_flags outside = flags_;
    if (take('?')) {
      if (left_.starts_with("P<")) (void)take('P');
      if (take('<')) {
        if (left_.starts_with("=") || left_.starts_with("!")) refuse("a look-behind");
        const std::size_t end = left_.find('>');
        if (end == std::string_view::npos) fail("the pattern has a group without '>'");
        left_.remove_prefix(end + 1);
      } else if (!take(':') && !take_flags(':')) {
        refuse("a look-ahead or an inline flag");
      }
    }
    expr out = alternatives(depth + 1);
    flags_ = outside;
    if (!take(')')) fail("the pattern has an unmatched '('");
    return out;
  }

  expr quantified(expr part) {
    std::uint32_t least = 1;
    std::uint32_t most = 1;
    if (take('*')) {
      least = 0;
      most = unbounded;
    } else if (take('+')) {
      most = unbounded;
    } else if (take('?')) {
      least = 0;
    } else if (take('{')) {
      least = most = count();
      if (take(',')) most = !left_.empty() && left_.front() == '}' ? unbounded : count();
      if (!take('}') || least > most) fail("the pattern has a malformed repetition");
    } else {
      return part;
    }
    (void)take('?');
    if (take('+')) refuse("a possessive repetition");
    return repeat(std::move(part), least, most);
  }

  std::uint32_t count() {
    std::uint32_t out = 0;
    if (left_.empty() || left_.front() < '0' || left_.front() > '9')
      fail("the pattern has a malformed repetition");
    while (!left_.empty() && left_.front() >= '0' && left_.front() <= '9') {
      out = out * 10 + static_cast<std::uint32_t>(left_.front() - '0');
      left_.remove_prefix(1);
      if (out > pattern_repeats_max) {
        fail("the pattern repeats more than " + std::to_string(pattern_repeats_max) + " times");
      }
    }
    return out;
  }

  // Reads an escape after its backslash.
  code_set escape(bool in_class) {
    const char32_t code = take_code();
    switch (code) {
      case 'd': return digit_codes();
      case 'D': return complement(digit_codes());
      case 'w': return word_codes();
      case 'W': return complement(word_codes());
      case 's': return space_codes();
      case 'S': return complement(space_codes());
      case 't': return {{'\t', '\t'}};
      case 'n': return {{'\n', '\n'}};
      case 'r': return {{'\r', '\r'}};
      case 'f': return {{'\f', '\f'}};
      case 'v': return {{'\v', '\v'}};
      case 'x': return one(hex(2));
      case 'u': return one(hex(4));
      case 'p': return category();
      case 'P': {
        code_set outside = category();
        const code_set& unassigned = *unicode_property("Cn");
        outside.insert(outside.end(), unassigned.begin(), unassigned.end());
        return complement(std::move(outside));
      }
      default: break;
    }
    if (code == 'b' && in_class) return {{'\b', '\b'}};
    if ((code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z')) {
      refuse(std::string("the escape \\") + static_cast<char>(code));
    }
    return one(code);
  }
  static code_set one(char32_t code) { return {{code, code}}; }

  code_set category() {
    const std::size_t end = left_.find('}');
    if (!take('{') || end == std::string_view::npos) fail("the pattern has a malformed \\p{...}");
    const std::string_view name = left_.substr(0, end - 1);
    compile_budget::work(100);
    const code_set* found = unicode_property(name);
    if (found == nullptr) refuse("\\p of something else than a general category or a script of Unicode");
    left_.remove_prefix(end);
    compile_budget::work(found->size());
    return *found;
  }

  char32_t hex(std::size_t length) {
    if (left_.size() < length) fail("the pattern ends too early");
    char32_t out = 0;
    for (const char c : left_.substr(0, length)) {
      const bool is_digit = c >= '0' && c <= '9';
      const char lower = static_cast<char>(c | 0x20);
      if (!is_digit && (lower < 'a' || lower > 'f')) fail("the pattern has a malformed escape");
      out = out * 16 + static_cast<char32_t>(is_digit ? c - '0' : lower - 'a' + 10);
    }
    left_.remove_prefix(length);
    if (out >= 0xD800 && out <= 0xDFFF) refuse("a surrogate");
    return out;
  }

  code_set bracket() {
    (void)take('[');
    const bool negated = take('^');
    code_set out;
    while (!take(']')) {
      const code_set from = class_item();
      const bool single = from.size() == 1 && from.front().first == from.front().last;
      if (left_.size() >= 2 && left_.front() == '-' && left_[1] != ']' && single) {
        (void)take('-');
        const code_set to = class_item();
        if (to.size() != 1 || to.front().first != to.front().last || to.front().first < from.front().first) {
          fail("the pattern has a malformed range");
        }
        add(out, cased(code_range{from.front().first, to.front().first}));
      } else {
        add(out, cased(from));
      }
    }
    // Both ways give a sorted set without overlaps.
    out = complement(std::move(out));
    return negated ? out : complement(std::move(out));
  }
  static void add(code_set& to, const code_set& more) { to.insert(to.end(), more.begin(), more.end()); }
  code_set class_item() {
    if (take('\\')) return escape(true);
    return one(take_code());
  }

  std::string_view all_, left_;
  const std::string* where_;
  spelling spell_;
  bool bounded_;
  pattern_flags flags_;
  std::map<code_set, expr> classes_;
};

}  // namespace

expr string_matching(std::string_view pattern, const std::string& where) {
  return parser(pattern, &where, string_character).whole(true);
}

expr value_matching(std::string_view pattern, const std::string& where) {
  return parser(pattern, &where, code_points).whole(true);
}

expr text_matching(std::string_view pattern, pattern_flags flags) {
  return parser(pattern, nullptr, code_points, flags).whole(false);
}

}  // namespace orcd::engine::grammar
