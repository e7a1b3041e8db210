// Values of text: the literals of a template, and JSON that a model has written.
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "engine/jinja/template_format.hpp"
#include "engine/jinja/template_lexer.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::jinja {
namespace {

constexpr bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

/// Replaces the escapes of one literal.
class unescaper {
 public:
  explicit unescaper(std::string_view in) : in_(in) {}

  std::string run() {
    while (at_ < in_.size()) {
      if (in_[at_] != '\\' || at_ + 1 == in_.size()) {
        out_ += in_[at_++];
      } else {
        ++at_;
        escape();
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    constexpr std::string_view letters = "\\'\"abfnrtv";
    constexpr std::string_view meanings = "\\'\"\a\b\f\n\r\t\v";
    const char c = in_[at_++];
    if (const auto known = letters.find(c); known != std::string_view::npos) {
      out_ += meanings[known];
    } else if (is_octal(c)) {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && at_ < in_.size() && is_octal(in_[at_]); ++i) {
        code = code * 8 + static_cast<char32_t>(in_[at_++] - '0');
      }
      utf8::append(out_, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      hexadecimal(c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c == 'N') {
      throw template_failure("\\N{...} in a string is not supported");
    } else if (c != '\n') {
      out_ += '\\';
      out_ += c;
    }
  }

  void hexadecimal(std::size_t digits) {
    std::uint32_t code = 0;
    const std::string_view part = in_.substr(at_, digits);
    const auto [end, failed] = std::from_chars(part.data(), part.data() + part.size(), code, 16);
    if (failed != std::errc{} || end != part.data() + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      throw template_failure("an escape in a string has no " + std::to_string(digits) +
                             " hexadecimal digits of a character");
    }
    utf8::append(out_, code);
    at_ += digits;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
};

constexpr int depth_max = 64;  ///< deeper text is text

bool is_white(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

std::string_view trimmed(std::string_view text) noexcept {
  while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white(text.back())) text.remove_suffix(1);
  return text;
}

/// Reads a value and what it holds. A part that the end of the text cuts off is left out, but for a string,
/// a list and an object, of which there is what has come.
class sent_reader {
 public:
  sent_reader(context& c, std::string_view text) : c_(c), text_(text) {}

  /// The object; nothing where the text is no beginning of one.
  std::optional<value> run() {
    if (text_.empty() || text_.front() != '{') return std::nullopt;
    const auto whole = object();
    if (wrong_ || at_ < text_.size()) return std::nullopt;
    return whole;
  }

 private:
  [[nodiscard]] bool over() const noexcept { return at_ == text_.size(); }
  void skip_white() noexcept {
    while (!over() && is_white(text_[at_])) ++at_;
  }
  std::optional<value> refuse() noexcept {
    wrong_ = true;
    return std::nullopt;
  }
  [[nodiscard]] std::string_view since(std::size_t from) const noexcept {
    return text_.substr(from, at_ - from);
  }

  /// Nothing where it is wrong or cut off before there is any of it.
  std::optional<value> any() {
    c_.charge(cost::node);
    switch (text_[at_]) {
      case '{': return object();
      case '[': return list();
      case '"': return string();
      case 't': return word("true", make_bool(true));
      case 'f': return word("false", make_bool(false));
      case 'n': return word("null", make_none());
      default: return number();
    }
  }

  std::optional<value> word(std::string_view all, value meaning) noexcept {
    const std::string_view here = text_.substr(at_, all.size());
    at_ += here.size();
    if (!all.starts_with(here)) return refuse();
    if (here.size() < all.size()) return std::nullopt;
    return meaning;
  }

  std::optional<value> number() {
    const std::size_t from = at_;
    while (!over() && std::string_view("+-.0123456789eE").find(text_[at_]) != std::string_view::npos) ++at_;
    const std::string_view digits = since(from);
    value out;
    std::int64_t whole = 0;
    const char* const end = digits.data() + digits.size();
    if (const auto read = std::from_chars(digits.data(), end, whole);
        read.ec == std::errc() && read.ptr == end) {
      out = make_integer(whole);
    } else {
      double real = 0;
      const auto found = std::from_chars(digits.data(), end, real);
      if (found.ec == std::errc::invalid_argument || found.ptr != end) {
        return over() && !digits.empty() ? std::nullopt : refuse();
      }
      out = make_real(real);
    }
    out.spelling = c_.memory.make<std::string_view>(digits);
    return out;
  }

  std::optional<value> string() {
    const std::size_t from = ++at_;
    while (!over() && text_[at_] != '"' && text_[at_] != '\\') ++at_;
    if (over() || text_[at_] == '"') {
      const std::string_view plain = since(from);
      if (!over()) ++at_;
      return make_string(plain);
    }
    std::string out(since(from));
    while (!over() && text_[at_] != '"') {
      if (text_[at_] != '\\') {
        out += text_[at_++];
      } else if (!escape(out)) {
        break;
      }
    }
    if (!over()) ++at_;
    const value made = c_.own_text(out);
    if (!out.empty()) c_.mark(made.view());
    return made;
  }

  /// False where the text ends within it.
  bool escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt";
    constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
    if (at_ + 1 == text_.size()) return to_end();
    const char letter = text_[at_ + 1];
    if (letter == 'u') return unicode(out);
    const std::size_t known = letters.find(letter);
    wrong_ = wrong_ || known == std::string_view::npos;
    if (!wrong_) out += meanings[known];
    at_ += 2;
    return true;
  }

  bool unicode(std::string& out) {
    const auto first = unit(at_);
    if (!first) return wrong_ ? (at_ = text_.size(), false) : to_end();
    at_ += 6;
    char32_t code = *first;
    if (code >= 0xD800 && code < 0xDC00) {
      const auto second = unit(at_);
      if (second && *second >= 0xDC00 && *second < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10U) + (*second - 0xDC00);
        at_ += 6;
      } else if (!second && !wrong_ && ends_in_escape()) {
        return to_end();
      }
    }
    if (code >= 0xD800 && code < 0xE000) {
      out += utf8::replacement;
    } else {
      utf8::append(out, code);
    }
    return true;
  }

  /// \uXXXX at this place; nothing where there is none, or only its beginning.
  std::optional<char32_t> unit(std::size_t at) {
    constexpr std::size_t size = 6;
    const std::string_view here = text_.substr(at, size);
    if (here.size() < size || here[0] != '\\' || here[1] != 'u') return std::nullopt;
    std::uint32_t code = 0;
    const auto [end, failed] = std::from_chars(here.data() + 2, here.data() + size, code, 16);
    if (failed != std::errc() || end != here.data() + size) {
      wrong_ = true;
      return std::nullopt;
    }
    return static_cast<char32_t>(code);
  }

  /// Whether no more is left than the beginning of \uXXXX.
  [[nodiscard]] bool ends_in_escape() const noexcept {
    const std::string_view rest = text_.substr(at_);
    return rest.size() < 6 && (rest.empty() || rest.front() == '\\') &&
           rest.find('"') == std::string_view::npos;
  }

  bool to_end() noexcept {
    at_ = text_.size();
    return false;
  }

  /// Behind an item of a list or an object: whether another comes.
  bool goes_on(char close) noexcept {
    skip_white();
    if (over()) return false;
    const char c = text_[at_++];
    if (c != ',' && c != close) wrong_ = true;
    if (c != ',' || wrong_) return false;
    skip_white();
    return !over();
  }

  /// Whether it begins with an item, and not with its end.
  bool has_items(char close) noexcept {
    ++at_;
    if (++depth_ > depth_max) wrong_ = true;
    skip_white();
    if (over() || wrong_) return false;
    if (text_[at_] != close) return true;
    ++at_;
    return false;
  }

  std::optional<value> list() {
    const std::size_t from = at_;
    std::vector<value> items;
    for (bool more = has_items(']'); more; more = goes_on(']')) {
      const auto item = any();
      if (wrong_) return std::nullopt;
      if (item) items.push_back(*item);
    }
    --depth_;
    if (wrong_) return std::nullopt;
    c_.charge(cost::allocation + cost::value * items.size());
    auto* const made = c_.memory.make<list_data>(c_.memory.copy(items));
    made->spelling = since(from);
    return make_value(made);
  }

  std::optional<value> object() {
    const std::size_t from = at_;
    std::vector<dict_entry> entries;
    for (bool more = has_items('}'); more; more = goes_on('}')) {
      if (!member(entries)) break;
    }
    --depth_;
    if (wrong_) return std::nullopt;
    c_.charge(cost::allocation + 2 * cost::value * entries.size());
    return make_value(c_.memory.make<dict_data>(c_.memory.copy(entries), since(from)));
  }

  /// False where it is wrong or cut off.
  bool member(std::vector<dict_entry>& entries) {
    if (text_[at_] != '"') wrong_ = true;
    if (wrong_) return false;
    const auto key = string();
    skip_white();
    if (over()) return false;
    wrong_ = wrong_ || text_[at_] != ':';
    if (wrong_) return false;
    ++at_;
    skip_white();
    if (over()) return false;
    const auto item = any();
    if (wrong_ || !item) return false;
    entries.push_back({*key, *item});
    return true;
  }

  context& c_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool wrong_ = false;
};

}  // namespace

std::string_view unescaped(std::string_view literal, arena& memory) {
  if (literal.find('\\') == std::string_view::npos) return literal;
  return memory.text(unescaper(literal).run());
}

value number_value(std::string_view literal) {
  std::string digits;
  for (const char c : literal) {
    if (c != '_') digits += c;
  }
  const bool prefixed =
      digits.size() > 1 && digits[0] == '0' && digits[1] > '9' && digits[1] != 'e' && digits[1] != 'E';
  if (!prefixed && digits.find_first_of(".eE") != std::string::npos) {
    double real = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), real);
    if (failed == std::errc::result_out_of_range)
      real = digits.find("e-") != std::string::npos ? 0.0 : HUGE_VAL;
    return make_real(real);
  }
  int base = 10;
  if (prefixed) {
    base = digits[1] == 'x' || digits[1] == 'X' ? 16 : digits[1] == 'o' || digits[1] == 'O' ? 8 : 2;
    digits.erase(0, 2);
  }
  std::int64_t integer = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), integer, base);
  if (failed != std::errc{} || end != digits.data() + digits.size()) {
    throw template_failure("'" + std::string(literal.substr(0, 40)) + "' is not an integer of 64 bits");
  }
  return make_integer(integer);
}

value read_sent(context& c, std::string_view text) {
  text = trimmed(text);
  c.charge(cost::decoded(text.size()));
  if (const auto read = sent_reader(c, text).run()) return *read;
  const dict_entry all{c.own_text("arguments"), make_string(text)};
  c.charge(cost::allocation);
  const auto entries = c.memory.copy(std::span<const dict_entry>(&all, 1));
  return make_value(c.memory.make<dict_data>(entries, text));
}

}  // namespace orcd::engine::jinja
