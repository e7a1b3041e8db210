#include "engine/grammar/lark_terms.hpp"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/character_sets.hpp"
#include "engine/grammar/regex.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::grammar {

namespace {

// From lark/grammars/common.lark. Strings and comments are spelled out, so that they end where a lexer ends
// them.
#define ORCD_INT "[0-9]+"
#define ORCD_DECIMAL "([0-9]+\\.[0-9]*|\\.[0-9]+)"
#define ORCD_EXPONENT "[eE][+-]?[0-9]+"
#define ORCD_FLOAT "([0-9]+" ORCD_EXPONENT "|" ORCD_DECIMAL "(" ORCD_EXPONENT ")?)"

struct named_terminal {
  std::string_view name, pattern;
};

constexpr auto terminals = std::to_array<named_terminal>({
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[a-fA-F0-9]"},
    {"INT", ORCD_INT},
    {"SIGNED_INT", "[+-]?" ORCD_INT},
    {"DECIMAL", ORCD_DECIMAL},
    {"FLOAT", ORCD_FLOAT},
    {"SIGNED_FLOAT", "[+-]?" ORCD_FLOAT},
    {"NUMBER", "(" ORCD_FLOAT "|" ORCD_INT ")"},
    {"SIGNED_NUMBER", "[+-]?(" ORCD_FLOAT "|" ORCD_INT ")"},
    {"ESCAPED_STRING", "\"([^\"\\\\\n]|\\\\[^\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \t]+"},
    {"WS", "[ \t\f\r\n]+"},
    {"CR", "\r"},
    {"LF", "\n"},
    {"NEWLINE", "(\r?\n)+"},
    {"SH_COMMENT", "#[^\n]*"},
    {"CPP_COMMENT", "//[^\n]*"},
    {"C_COMMENT", "/\\*([^*]|\\*+[^*/])*\\*+/"},
    {"SQL_COMMENT", "--[^\n]*"},
});

#undef ORCD_INT
#undef ORCD_DECIMAL
#undef ORCD_EXPONENT
#undef ORCD_FLOAT

bool is_quote(char c) noexcept {
  return c == '"' || c == '\'';
}

// Four digits, or a pair of surrogates as JSON has it.
char32_t four_digits(grammar_text& text, std::size_t from) {
  const std::string_view next = text.left();
  const bool high = next.size() >= 10 && (next[0] | 0x20) == 'd' &&
                    std::string_view("89abAB").find(next[1]) != std::string_view::npos &&
                    next.substr(4, 2) == "\\u" && (next[6] | 0x20) == 'd';
  if (!high) return text.hex(from, 4);
  (void)text.take_byte();
  const char32_t first = text.hex(from, 3);
  (void)text.take("\\u");
  (void)text.take_byte();
  const char32_t second = text.hex(from, 3);
  if (second < 0xC00) text.fail(from, "the escape is no code point");
  return 0x10000 + ((first - 0x800) << 10U) + (second - 0xC00);
}

char32_t escaped(grammar_text& text) {
  const std::size_t from = text.at();
  (void)text.take_byte();
  const char c = text.take_byte();
  switch (c) {
    case 'x': return text.hex(from, 2);
    case 'u': return four_digits(text, from);
    case 'U': return text.hex(from, 8);
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'f': return '\f';
    case '\\':
    case '"':
    case '\'':
    case '/': return static_cast<char32_t>(c);
    default: break;
  }
  text.fail(from, "unknown escape; there are \\n \\t \\r \\f \\\\ \\\" \\' \\/ \\xHH \\uHHHH \\UHHHHHHHH");
}

// The code points of a string, of both of whose quotes none is left.
std::u32string quoted_codes(grammar_text& text) {
  const std::size_t from = text.at();
  const char quote = text.take_byte();
  std::u32string out;
  while (!text.take({&quote, 1})) {
    if (text.at_end() || text.front() == '\n')
      text.fail(from, std::string("the string has no closing ") + quote);
    out += text.front() == '\\' ? escaped(text) : text.code();
  }
  compile_budget::work(1 + out.size() / 8);
  return out;
}

void skip_blanks(grammar_text& text) {
  while (text.take(" ") || text.take("\t")) {
  }
}

expr in_any_case(const std::u32string& codes) {
  std::vector<expr> out;
  for (const char32_t code : codes) {
    std::vector<expr> cases;
    for (const code_range& range : with_other_cases({{code, code}}))
      cases.push_back(code_points(range.first, range.last));
    out.push_back(choice(std::move(cases)));
  }
  return sequence(std::move(out));
}

}  // namespace

expr lark_string(grammar_text& text) {
  const std::size_t from = text.at();
  const std::u32string codes = quoted_codes(text);
  const std::size_t after = text.at();
  skip_blanks(text);
  if (text.take("..")) {
    skip_blanks(text);
    if (!is_quote(text.front())) text.fail(text.at(), "a range is of two characters in quotes");
    const std::u32string last = quoted_codes(text);
    if (codes.size() != 1 || last.size() != 1 || last < codes)
      text.fail(from, "a range is of one character up to one that is not before it");
    return code_points(codes.front(), last.front());
  }
  text.go_to(after);
  if (text.take("i")) return in_any_case(codes);
  std::string out;
  for (const char32_t code : codes) utf8::append(out, code);
  return literal(out);
}

expr lark_pattern(grammar_text& text) {
  const std::size_t from = text.at();
  (void)text.take_byte();
  const std::size_t begin = text.at();
  while (text.front() != '/') {
    if (text.at_end() || text.front() == '\n') text.fail(from, "the regular expression has no closing '/'");
    if (text.take_byte() == '\\' && text.front() != '\n') (void)text.take_byte();
  }
  const std::string_view what = text.from(begin);
  (void)text.take_byte();
  pattern_flags flags;
  flags.part = true;
  for (; text.front() >= 'a' && text.front() <= 'z'; (void)text.take_byte()) {
    const char flag = text.front();
    if (flag == 'i') flags.any_case = true;
    if (flag == 's') flags.any_code = true;
    if (std::string_view("isu").find(flag) == std::string_view::npos)
      text.fail(text.at(), std::string("the flag ") + flag + " of a regular expression is not served");
  }
  try {
    return text_matching(what, flags);
  } catch (const grammar_failure& failure) {
    if (!failure.where.starts_with("offset ")) throw;
    text.fail(from, failure.where + " of the regular expression: " + failure.what);
  }
}

std::string_view common_terminal(std::string_view name) noexcept {
  for (const auto& [known, pattern] : terminals) {
    if (known == name) return pattern;
  }
  return {};
}

}  // namespace orcd::engine::grammar
