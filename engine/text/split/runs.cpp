// Patterns that isolate runs of one set of characters, and those that name texts.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "engine/text/split/scan.hpp"

namespace orcd::engine::split {

namespace {

struct code_range {
  char32_t first, last;
};

// A set of characters: those of the ranges and of the classes or, if `negated`, all others.
template <std::size_t N>
struct code_points {
  std::array<code_range, N> ranges;  // ascending, without overlap
  std::uint16_t classes = 0;
  bool negated = false;

  [[nodiscard]] constexpr bool lists(char32_t code) const {
    const auto at = std::partition_point(ranges.begin(), ranges.end(),
                                         [code](const code_range& r) { return r.last < code; });
    return at != ranges.end() && at->first <= code;
  }
};

using classes_only = code_points<0>;

// Letters of scripts that have case, as DeepSeek LLM's tokenizer.json spells them.
constexpr code_points<84> cased_letters{
    {{{0x41, 0x5A},       {0x61, 0x7A},       {0xB5, 0xB5},       {0xC0, 0xD6},       {0xD8, 0xF6},
      {0xF8, 0x1BA},      {0x1BC, 0x1BF},     {0x1C4, 0x293},     {0x295, 0x2AF},     {0x370, 0x373},
      {0x376, 0x377},     {0x37B, 0x37D},     {0x37F, 0x37F},     {0x386, 0x386},     {0x388, 0x38A},
      {0x38C, 0x38C},     {0x38E, 0x3A1},     {0x3A3, 0x3F5},     {0x3F7, 0x481},     {0x48A, 0x52F},
      {0x531, 0x556},     {0x10A0, 0x10C5},   {0x13A0, 0x13F5},   {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},
      {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},   {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},
      {0x1F18, 0x1F1D},   {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
      {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},   {0x1FB6, 0x1FBC},
      {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},   {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},
      {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},   {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},
      {0x210A, 0x2113},   {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
      {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},   {0x213C, 0x213F},
      {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},
      {0x2CEB, 0x2CEE},   {0x2CF2, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},   {0xA722, 0xA76F},
      {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},   {0xFB00, 0xFB06},   {0xFB13, 0xFB17},
      {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},   {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB},
      {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943}}}};
// Its punctuation; the range from the colon to the tilde has the ASCII letters, too.
constexpr code_points<6> wide_punctuation_and_letters{
    {{{0x21, 0x2F}, {0x3A, 0x7E}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F}, {0xFF1A, 0xFF5E}}}};
constexpr code_points<2> ideographs_hangul{{{{0x800, 0x9FA5}, {0xAC00, 0xD7FF}}}};
constexpr code_points<2> ideographs_kana{{{{0x3040, 0x30FF}, {0x4E00, 0x9FA5}}}};
constexpr code_points<2> hangul{{{{0x3131, 0x318E}, {0xAC00, 0xD7A3}}}};
constexpr code_points<1> bopomofo{{{{0x3105, 0x312F}}}};
constexpr code_points<9> wide_punctuation{{{{0x2014, 0x2014},
                                            {0x2018, 0x2019},
                                            {0x201C, 0x201D},
                                            {0x2026, 0x2026},
                                            {0x3001, 0x303F},
                                            {0xFE30, 0xFE4F},
                                            {0xFF01, 0xFF01},
                                            {0xFF0C, 0xFF0C},
                                            {0xFF1A, 0xFF1B}}}};
// Trinity's: CJK, kana, Thai, Lao, Khmer, Burmese, and all from U+8C48 to U+FAFF.
constexpr code_points<9> asian{{{{0xE40, 0xEFF},
                                 {0x1000, 0x109F},
                                 {0x1100, 0x11FF},
                                 {0x1780, 0x17FF},
                                 {0x2F00, 0x2FDF},
                                 {0x3040, 0x30FF},
                                 {0x3400, 0x4DBF},
                                 {0x4E00, 0xFAFF},
                                 {0xFF65, 0xFF9F}}}};
// What ends BLOOM's words: punctuation, parentheses, bars and space.
constexpr code_points<12> unpunctuated{{{{0x21, 0x21},
                                         {0x28, 0x29},
                                         {0x2C, 0x2C},
                                         {0x2E, 0x2E},
                                         {0x3F, 0x3F},
                                         {0x7C, 0x7C},
                                         {0x60C, 0x60C},
                                         {0x6D4, 0x6D4},
                                         {0x964, 0x964},
                                         {0x2026, 0x2026},
                                         {0x3001, 0x3002},
                                         {0xFF0C, 0xFF0C}}},
                                       class_space,
                                       true};
// [\p{P}$+<=>^~|]
constexpr code_points<6> punctuation_and_signs{
    {{{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'|', '|'}, {'~', '~'}}}, class_punctuation};
constexpr code_points<2> newlines{{{{'\n', '\n'}, {'\r', '\r'}}}};
constexpr code_points<1> line_feed{{{{'\n', '\n'}}}};
constexpr classes_only all_letters{{}, class_letter};
constexpr classes_only all_punctuation{{}, class_punctuation};
constexpr classes_only split_punctuation{{}, class_split_punctuation};

// The ASCII characters among the listed ones, so that most text needs no search.
template <const auto& Set>
constexpr std::array<bool, 0x80> make_ascii_table() {
  std::array<bool, 0x80> table{};
  for (char32_t code = 0; code < table.size(); ++code) table[code] = Set.lists(code);
  return table;
}

template <const auto& Set>
bool is_in(const character& c) {
  static constexpr std::array<bool, 0x80> ascii = make_ascii_table<Set>();
  return (c.is(Set.classes) || (c.code < 0x80 ? ascii[c.code] : Set.lists(c.code))) != Set.negated;
}

// What may stand before the characters of a match.
enum class before { nothing, space, whitespace };

// The end of the match at p, or nullptr: one character of the set, or a run of them.
template <const auto& Set, before Before, bool Run>
const char* match_set(const scan& s, const char* p) {
  character c = s.at(p);
  const bool spaced = Before == before::whitespace ? c.is(class_space) : *p == ' ';
  if (Before != before::nothing && spaced && c.next != s.end()) {
    const character d = s.at(c.next);
    if (is_in<Set>(d)) return s.run_while(d.next, is_in<Set>);
  }
  if (!is_in<Set>(c)) return nullptr;
  return Run ? s.run_while(c.next, is_in<Set>) : c.next;
}

template <const auto& Set, before Before = before::nothing>
constexpr split_scanner scan_runs = scan_matches<match_set<Set, Before, true>>;
template <const auto& Set>
constexpr split_scanner scan_each = scan_matches<match_set<Set, before::nothing, false>>;

// Isolates `\s+$`. Where the pattern is used newlines have been cut out before, so that the end is the
// text's.
const char* scan_trailing_space(const char* p, const char* end, const unicode_table& table, const char*&) {
  const scan s(end, table);
  const char* text_end = p;
  for (const char* q = p; q != end;) {
    const character c = s.at(q);
    q = c.next;
    if (!c.is(class_space)) text_end = q;
  }
  return text_end == p ? end : text_end;
}

const char* match_sentinel(const scan& s, const char* p) {
  constexpr std::string_view head = "<sentinel:";
  const std::string_view rest(p, static_cast<std::size_t>(s.end() - p));
  if (!rest.starts_with(head)) return nullptr;
  const std::size_t digits = rest.find_first_not_of("0123456789", head.size());
  if (digits == head.size() || digits == std::string_view::npos || rest[digits] != '>') return nullptr;
  return p + digits + 1;
}

const char* match_image(const scan& s, const char* p) {
  constexpr std::string_view head = "IMGIMG";
  const std::string_view rest(p, static_cast<std::size_t>(s.end() - p));
  if (!rest.starts_with(head)) return nullptr;
  const std::size_t letters = rest.substr(head.size(), 5).find_first_not_of("ABCDEFGHI");
  if (letters == 0 || letters == std::string_view::npos || rest[head.size() + letters] != 'Z') return nullptr;
  return p + head.size() + letters + 1;
}

const char* match_indentation(const scan& s, const char* p) {
  if (*p == '\t' || *p == '\n') return p + 1;
  const std::string_view rest(p, static_cast<std::size_t>(s.end() - p));
  if (rest.starts_with("    ")) return p + 4;
  return rest.starts_with("  ") ? p + 2 : nullptr;
}

// The end of the run of \r?\n at p.
const char* skip_newlines(const char* p, const char* end) {
  while (p != end) {
    const char* const q = *p == '\r' && p + 1 != end ? p + 1 : p;
    if (*q != '\n') break;
    p = q + 1;
  }
  return p;
}

const char* scan_newline_starts(const char* p, const char* end, const unicode_table&, const char*&) {
  const char* const from = skip_newlines(p, end);
  const auto* const next =
      static_cast<const char*>(std::memchr(from, '\n', static_cast<std::size_t>(end - from)));
  if (next == nullptr) return end;
  return next != from && next[-1] == '\r' ? next - 1 : next;
}

const char* scan_metaspace_runs(const char* p, const char* end, const unicode_table&, const char*&) {
  constexpr std::string_view metaspace = "\xE2\x96\x81";
  std::string_view rest(p, static_cast<std::size_t>(end - p));
  while (rest.starts_with(metaspace)) rest.remove_prefix(metaspace.size());
  const std::size_t next = rest.find(metaspace);
  return next == std::string_view::npos ? end : rest.data() + next;
}

const char* scan_metaspace(const char* p, const char* end, const unicode_table&, const char*&) {
  const std::string_view rest(p, static_cast<std::size_t>(end - p));
  const std::size_t next = rest.find("\xE2\x96\x81", 1);
  return next == std::string_view::npos ? end : p + next;
}

}  // namespace

split_scanner find_run_scanner(split_rule rule) {
  switch (rule) {
    case split_rule::punctuation_run: return scan_runs<punctuation_and_signs>;
    case split_rule::split_punctuation_each: return scan_each<split_punctuation>;
    case split_rule::split_punctuation_run: return scan_runs<split_punctuation>;
    case split_rule::spaced_letters: return scan_runs<all_letters, before::whitespace>;
    case split_rule::spaced_punctuation: return scan_runs<all_punctuation, before::whitespace>;
    case split_rule::spaced_cased_letters: return scan_runs<cased_letters, before::whitespace>;
    case split_rule::spaced_wide_punctuation:
      return scan_runs<wide_punctuation_and_letters, before::whitespace>;
    case split_rule::unpunctuated: return scan_runs<unpunctuated, before::space>;
    case split_rule::newline_each: return scan_each<newlines>;
    case split_rule::trailing_space: return scan_trailing_space;
    case split_rule::ideographs_hangul: return scan_runs<ideographs_hangul>;
    case split_rule::ideographs_kana: return scan_runs<ideographs_kana>;
    case split_rule::hangul: return scan_runs<hangul>;
    case split_rule::bopomofo: return scan_runs<bopomofo>;
    case split_rule::wide_punctuation: return scan_runs<wide_punctuation>;
    case split_rule::asian: return scan_runs<asian>;
    case split_rule::chameleon_sentinel: return scan_matches<match_sentinel>;
    case split_rule::chameleon_image: return scan_matches<match_image>;
    case split_rule::chameleon_space: return scan_matches<match_indentation>;
    case split_rule::newline_start: return scan_newline_starts;
    case split_rule::line_feed_run: return scan_runs<line_feed>;
    case split_rule::metaspace_start: return scan_metaspace;
    case split_rule::metaspace_run_start: return scan_metaspace_runs;
    default: return nullptr;
  }
}

}  // namespace orcd::engine::split
