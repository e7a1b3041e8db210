// The patterns that find words, numbers, punctuation and space.
#include <algorithm>
#include <bit>

#include "engine/text/split/scan.hpp"

namespace orcd::engine::split {

namespace {

constexpr std::uint16_t class_none_of_lns = class_letter | class_number | class_space;
constexpr std::uint16_t class_mark_of_text = class_punctuation | class_symbol;

// What follows punctuation as part of it.
enum class line_ends { none, one, all, all_with_slashes };

// The end of a contraction ('s 't 're 've 'm 'll 'd) at p, or p if there is none. Ignoring case, 's has a
// third s: U+017F.
template <bool IgnoreCase>
const char* contraction(const char* p, const char* end) {
  if (end - p < 2 || *p != '\'') return p;
  const auto letter = [&](std::ptrdiff_t i) -> char {
    if (i >= end - p) return '\0';
    const char c = p[i];
    return IgnoreCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char first = letter(1);
  const char second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return p + 2;
  if ((first == 'r' || first == 'v') && second == 'e') return p + 3;
  if (first == 'l' && second == 'l') return p + 3;
  if (IgnoreCase && first == '\xC5' && second == '\xBF') return p + 3;
  return p;
}

// The run of whitespace at p, where one stands.
struct space_run {
  const char* last = nullptr;           // its last character
  const char* after_newline = nullptr;  // behind its last newline, if it has one
  const char* end = nullptr;
};

space_run find_space(const scan& s, const char* p) {
  space_run run{p, nullptr, p};
  while (run.end != s.end()) {
    const character c = s.at(run.end);
    if (!c.is(class_space)) break;
    if (is_newline(c.code)) run.after_newline = c.next;
    run.last = run.end;
    run.end = c.next;
  }
  return run;
}

// The end of `\s*[\r\n]+|\s+(?!\S)|\s+` (the first alternative only with Newlines); a whitespace character
// stands at p.
template <bool Newlines>
const char* whitespace(const scan& s, const char* p) {
  const space_run run = find_space(s, p);
  if (Newlines && run.after_newline != nullptr) return run.after_newline;
  return run.end == s.end() || run.last == p ? run.end : run.last;
}

// The end of `\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|...|\s{1,2}(?!\S)|\s{1}`. `note` is the end of a run of
// whitespace in which no newline follows, so that a long run is not searched again for each of its pieces.
const char* halved_space(const scan& s, const char* p, const char*& note) {
  if (note == nullptr || note <= p) {
    const space_run run = find_space(s, p);
    if (run.after_newline != nullptr) return run.after_newline;
    note = run.end;
  }
  constexpr unsigned longest = 512;
  unsigned count = 0;
  for (const char* q = p; q != note && count <= longest; q = s.at(q).next) ++count;
  if (note != s.end()) --count;  // the last character is what the next word may begin with
  unsigned take = std::max(std::bit_floor(std::min(count, longest)), 1u);
  while (take-- > 0) p = s.at(p).next;
  return p;
}

// The end of the `[\r\n]*` behind punctuation, or of what stands there instead.
template <line_ends Ends>
const char* line_end(const scan& s, const char* p) {
  if (Ends == line_ends::none) return p;
  if (Ends == line_ends::one) {
    return p != s.end() && is_newline(static_cast<unsigned char>(*p)) ? p + 1 : p;
  }
  while (p != s.end() &&
         (is_newline(static_cast<unsigned char>(*p)) || (Ends == line_ends::all_with_slashes && *p == '/'))) {
    ++p;
  }
  return p;
}

// The end of the alternatives that follow the words in the llama3 and o200k patterns: numbers, punctuation,
// space.
template <int Digits, line_ends Ends, std::uint16_t NotPunctuation, bool HalvedSpace = false>
const char* tail(const scan& s, const char* p, const char*& note) {
  const character c = s.at(p);
  if (c.is(class_number)) return s.run(p, class_number, Digits);
  const char* const q = *p == ' ' ? c.next : p;
  if (q != s.end() && !s.at(q).is(NotPunctuation)) {
    return line_end<Ends>(s, s.run_without(q, NotPunctuation));
  }
  if (!c.is(class_space)) return c.next;
  return HalvedSpace ? halved_space(s, p, note) : whitespace<true>(s, p);
}

struct llama3_form {
  int digits = 1;
  std::uint16_t word = class_letter;
  bool contractions = true;
  line_ends ends = line_ends::all;
  bool phrases = false;       // words go on over single spaces
  bool halved_space = false;  // whitespace is cut at powers of two
};

// The end of `(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+` at p, where a letter stands.
const char* phrase(const scan& s, const char* p) {
  for (character c = s.at(p); c.is(class_letter); c = s.at(p)) {
    p = s.run(c.next, class_mark);
    if (p != s.end() && *p == ' ' && s.at(p + 1).is(class_letter)) ++p;
  }
  return p;
}

template <llama3_form Form>
const char* scan_llama3(const char* p, const char* end, const unicode_table& table, const char*& note) {
  const scan s(end, table);
  if (Form.contractions) {
    if (const char* const q = contraction<true>(p, end); q != p) return q;
  }
  const auto word = [&s](const char* from) {
    return Form.phrases ? phrase(s, from) : s.run(from, Form.word);
  };
  const character c = s.at(p);
  if (c.is(Form.word)) return word(p);
  if (!c.is(class_number) && !is_newline(c.code) && s.at(c.next).is(Form.word)) return word(c.next);
  return tail<Form.digits, Form.ends, class_none_of_lns | Form.word, Form.halved_space>(s, p, note);
}

const char* scan_gpt2(const char* p, const char* end, const unicode_table& table, const char*&) {
  const scan s(end, table);
  if (const char* const q = contraction<false>(p, end); q != p) return q;
  const char* const q = *p == ' ' && p + 1 != end ? p + 1 : p;
  const character c = s.at(q);
  if (c.is(class_letter)) return s.run(c.next, class_letter);
  if (c.is(class_number)) return s.run(c.next, class_number);
  if (!c.is(class_space)) return s.run_without(c.next, class_none_of_lns);
  return whitespace<false>(s, p);
}

// Whether a character is of the class, and not of the one that is left out of it.
template <std::uint16_t Without>
bool is_part(const character& c, std::uint16_t mask) {
  return c.is(mask) && !c.is(Without);
}

// The end of `[upper]*[lower]+` from p, or nullptr. Where the run of `upper` has consumed every `lower`, it
// gives back as little as the pattern's backtracking would.
template <std::uint16_t Without>
const char* lower_word(const scan& s, const char* p) {
  const char* after_lower = nullptr;
  const char* q = p;
  while (q != s.end()) {
    const character c = s.at(q);
    if (!is_part<Without>(c, class_upper)) break;
    if (c.is(class_lower)) after_lower = c.next;
    q = c.next;
  }
  const char* const r = s.run_while(q, [](const character& c) { return is_part<Without>(c, class_lower); });
  return r != q ? r : after_lower;
}

// The end of `[upper]+[lower]*` from p, or nullptr.
template <std::uint16_t Without>
const char* upper_word(const scan& s, const char* p) {
  const auto part = [](std::uint16_t mask) {
    return [mask](const character& c) { return is_part<Without>(c, mask); };
  };
  const char* const q = s.run_while(p, part(class_upper));
  return q == p ? nullptr : s.run_while(q, part(class_lower));
}

// Words by case, numbers, punctuation, space. A run of the class `Apart` is a piece of its own and no part of
// a word.
template <int Digits, bool Contractions, line_ends Ends, std::uint16_t Apart = 0>
const char* scan_o200k(const char* p, const char* end, const unicode_table& table, const char*& note) {
  const scan s(end, table);
  const character c = s.at(p);
  if (c.is(Apart)) return s.run(c.next, Apart);
  const bool prefix = !c.is(class_letter | class_number) && !is_newline(c.code);
  const char* word = nullptr;
  if (prefix) word = lower_word<Apart>(s, c.next);
  if (word == nullptr) word = lower_word<Apart>(s, p);
  if (word == nullptr && prefix) word = upper_word<Apart>(s, c.next);
  if (word == nullptr) word = upper_word<Apart>(s, p);
  if (word != nullptr) return Contractions ? contraction<true>(word, end) : word;
  return tail<Digits, Ends, class_none_of_lns>(s, p, note);
}

bool is_ascii_letter(const character& c) {
  return (c.code >= 'a' && c.code <= 'z') || (c.code >= 'A' && c.code <= 'Z');
}

// The end of `[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` and
// of whitespace at p, or nullptr. Apart from `Newlines` the third alternative takes no newlines along, and
// each is a match of its own.
template <bool Newlines>
const char* match_deepseek3(const scan& s, const char* p) {
  constexpr std::uint16_t word = class_letter | class_mark;
  const character c = s.at(p);
  if (c.is(word)) return s.run(c.next, word);
  const character d = s.at(c.next);
  if (c.code < 0x80 && c.is(class_mark_of_text) && is_ascii_letter(d)) {
    return s.run_while(d.next, is_ascii_letter);
  }
  if (!c.is(class_mark_of_text) && !is_newline(c.code) && d.is(word)) return s.run(d.next, word);
  const bool spaced = c.code == ' ' && d.is(class_mark_of_text);
  if (spaced || c.is(class_mark_of_text)) {
    constexpr line_ends ends = Newlines ? line_ends::all : line_ends::none;
    return line_end<ends>(s, s.run(c.next, class_mark_of_text));
  }
  if (!c.is(class_space)) return nullptr;
  return !Newlines && is_newline(c.code) ? c.next : whitespace<Newlines>(s, p);
}

}  // namespace

split_scanner find_word_scanner(split_rule rule) {
  using enum line_ends;
  switch (rule) {
    case split_rule::gpt2: return scan_gpt2;
    case split_rule::llama3: return scan_llama3<llama3_form{.digits = 3}>;
    case split_rule::qwen2: return scan_llama3<llama3_form{}>;
    case split_rule::qwen35: return scan_llama3<llama3_form{.word = class_letter | class_mark}>;
    case split_rule::ufakzeka: return scan_llama3<llama3_form{.contractions = false}>;
    case split_rule::seed_coder: return scan_llama3<llama3_form{.ends = none}>;
    case split_rule::jais2: return scan_llama3<llama3_form{.digits = 3, .halved_space = true}>;
    case split_rule::exaone_moe: return scan_llama3<llama3_form{.ends = one, .phrases = true}>;
    case split_rule::o200k: return scan_o200k<3, true, all_with_slashes>;
    case split_rule::o200k_digits: return scan_o200k<1, true, all_with_slashes>;
    case split_rule::tekken: return scan_o200k<1, false, all_with_slashes>;
    case split_rule::kimi_k2: return scan_o200k<3, true, all, class_han>;
    case split_rule::deepseek3: return scan_matches<match_deepseek3<true>>;
    case split_rule::spark: return scan_matches<match_deepseek3<false>>;
    default: return nullptr;
  }
}

}  // namespace orcd::engine::split
