#include "engine/jinja/template_lexer.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "engine/jinja/template_text.hpp"

namespace orcd::engine::jinja {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_part(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

/// The source with line ends as \n, without the last one.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t at = 0; at < source.size(); ++at) {
    if (source[at] == '\r') {
      if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
      out += '\n';
    } else {
      out += source[at];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class lexer {
 public:
  lexer(std::string_view source, arena& memory, work_meter& meter)
      : memory_(memory), meter_(meter), source_(memory.text(normalized(source))) {}

  std::vector<token> run() {
    try {
      while (at_ < source_.size()) outside();
      add(token_kind::end, {});
    } catch (template_failure& failure) {
      if (failure.line == 0) failure.line = line_;
      throw;
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return source_.substr(at_); }

  void add(token_kind kind, std::string_view text) {
    meter_.charge(cost::node);
    out_.push_back({kind, line_, text});
  }

  /// Moves to `to`, counting lines; notes in `starts_line` whether the text before it ended with a line end.
  void pass(std::size_t to) {
    line_ += static_cast<std::uint32_t>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                   source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    if (to > at_) starts_line_ = source_[to - 1] == '\n';
    at_ = to;
  }

  /// Reads text and the tag that ends it.
  void outside() {
    std::size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= source_.size()) {
        add(token_kind::text, rest());
        pass(source_.size());
        return;
      }
      const char second = source_[tag + 1];
      if (second == '%' || second == '#' || second == '{') break;
    }
    const char second = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
    const bool has_sign = sign == '-' || sign == '+';
    emit_text(source_.substr(at_, tag - at_), has_sign ? sign : ' ', second != '{');
    pass(tag + (has_sign ? 3 : 2));
    if (second == '#') return comment();
    if (second == '%' && raw()) return;
    add(second == '%' ? token_kind::block_begin : token_kind::print_begin, {});
    inside(second == '%');
  }

  void emit_text(std::string_view text, char sign, bool may_strip_line) {
    std::string_view kept = text;
    if (sign == '-') {
      kept = strip_right(meter_, text);
    } else if (sign != '+' && may_strip_line) {
      const std::size_t line = text.rfind('\n') + 1;  // npos + 1 = 0
      if ((line > 0 || starts_line_) && strip_left(meter_, text.substr(line)).empty())
        kept = text.substr(0, line);
    }
    if (!kept.empty()) add(token_kind::text, kept);
  }

  /// Where the text after a tag begins: `-` removes all white space, a block or a comment one line end.
  [[nodiscard]] std::size_t after_tag(std::size_t end, char sign, bool trims_line) const {
    if (sign == '-') return source_.size() - strip_left(meter_, source_.substr(end)).size();
    return trims_line && sign != '+' && end < source_.size() && source_[end] == '\n' ? end + 1 : end;
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) throw template_failure("a comment has no end");
    const char before = end > at_ ? source_[end - 1] : ' ';
    pass(after_tag(end + 2, before, true));
  }

  /// Reads {% raw %} ... {% endraw %}; false when it is another tag.
  bool raw() {
    const std::size_t begin = raw_tag(at_, "raw");
    if (begin == std::string_view::npos) return false;
    const bool strips = source_[begin - 3] == '-';
    const std::size_t text = after_tag(begin, strips ? '-' : '+', false);
    for (std::size_t tag = source_.find("{%", text); tag != std::string_view::npos;
         tag = source_.find("{%", tag + 1)) {
      const char sign = tag + 2 < source_.size() ? source_[tag + 2] : ' ';
      const bool has_sign = sign == '-' || sign == '+';
      const std::size_t end = raw_tag(tag + (has_sign ? 3 : 2), "endraw");
      if (end == std::string_view::npos) continue;
      pass(text);
      emit_text(source_.substr(text, tag - text), has_sign ? sign : ' ', true);
      pass(after_tag(end, source_[end - 3], true));
      return true;
    }
    throw template_failure("a raw block has no end");
  }

  /// The end of a tag that consists of `word` alone, or npos.
  [[nodiscard]] std::size_t raw_tag(std::size_t from, std::string_view word) const {
    std::string_view left = strip_left(meter_, source_.substr(from));
    if (!left.starts_with(word)) return std::string_view::npos;
    left = strip_left(meter_, left.substr(word.size()));
    if (left.starts_with('-') || left.starts_with('+')) left.remove_prefix(1);
    return left.starts_with("%}") ? source_.size() - left.size() + 2 : std::string_view::npos;
  }

  void inside(bool is_block) {
    const std::string_view end = is_block ? "%}" : "}}";
    brackets_.clear();
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (brackets_.empty()) {
        const bool has_sign = c == '-' || (c == '+' && is_block);
        if (rest().substr(has_sign ? 1 : 0).starts_with(end)) {
          add(is_block ? token_kind::block_end : token_kind::print_end, {});
          pass(after_tag(at_ + (has_sign ? 3 : 2), has_sign ? c : ' ', is_block));
          return;
        }
      }
      one_token(c);
    }
    throw template_failure(is_block ? "a block tag has no end" : "a print tag has no end");
  }

  void one_token(char c) {
    if (is_space(code_at(source_, at_))) {
      pass(at_ + code_size(source_, at_));
    } else if (is_digit(c)) {
      number();
    } else if (is_name_part(c)) {
      std::size_t end = at_;
      while (end < source_.size() && is_name_part(source_[end])) ++end;
      add(token_kind::name, source_.substr(at_, end - at_));
      pass(end);
    } else if (c == '\'' || c == '"') {
      string(c);
    } else {
      mark(c);
    }
  }

  [[nodiscard]] std::size_t digits_from(std::size_t at) const {
    while (at < source_.size() && (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                                             is_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  void number() {
    std::size_t end = digits_from(at_);
    const auto at = [&](std::size_t i) { return i < source_.size() ? source_[i] : ' '; };
    bool real = false;
    const char prefix = source_[at_] == '0' ? static_cast<char>(at(at_ + 1) | 0x20) : ' ';
    if (prefix == 'x' || prefix == 'o' || prefix == 'b') {
      end = at_ + 2;
      while (is_name_part(at(end))) ++end;
    } else if (!(at_ > 0 && source_[at_ - 1] == '.')) {  // x.0.1 is two items, not a real number
      if (at(end) == '.' && is_digit(at(end + 1))) {
        end = digits_from(end + 1);
        real = true;
      }
      const std::size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0;
      if ((at(end) == 'e' || at(end) == 'E') && is_digit(at(end + 1 + sign))) {
        end = digits_from(end + 1 + sign);
        real = true;
      }
    }
    const std::string_view text = source_.substr(at_, end - at_);
    add(real ? token_kind::real : token_kind::integer, text);
    out_.back().constant = number_value(text);
    pass(end);
  }

  void string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2U : 1U;
    if (end >= source_.size()) throw template_failure("a string has no end");
    add(token_kind::string, unescaped(source_.substr(at_ + 1, end - at_ - 1), memory_));
    pass(end + 1);
  }

  void mark(char c) {
    constexpr std::array<std::string_view, 6> pairs{"**", "//", "==", "!=", ">=", "<="};
    constexpr std::string_view singles = "+-/*%~[](){}<>=.:|,;";
    std::size_t size = 0;
    for (const std::string_view pair : pairs) {
      if (rest().starts_with(pair)) size = 2;
    }
    if (size == 0 && singles.find(c) != std::string_view::npos) size = 1;
    if (size == 0) {
      throw template_failure("unexpected character '" +
                             std::string(rest().substr(0, code_size(source_, at_))) + "'");
    }
    if (c == '(' || c == '[' || c == '{') brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) {
        throw template_failure(std::string("unexpected '") + c + "'");
      }
      brackets_.pop_back();
    }
    add(token_kind::mark, source_.substr(at_, size));
    pass(at_ + size);
  }

  arena& memory_;
  work_meter& meter_;
  std::string_view source_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  bool starts_line_ = true;
  std::string brackets_;  ///< the closing brackets of those that are open
  std::vector<token> out_;
};

}  // namespace

std::vector<token> tokenize(std::string_view source, arena& memory, work_meter& meter) {
  return lexer(source, memory, meter).run();
}

}  // namespace orcd::engine::jinja
