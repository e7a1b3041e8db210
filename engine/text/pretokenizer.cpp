#include "engine/text/pretokenizer.hpp"

#include "engine/text/utf8.hpp"

namespace orcd::engine {

namespace {

constexpr std::uint16_t class_none_of_lns = class_letter | class_number | class_space;

// One character: its classes, and where the next one starts.
struct character {
  std::uint16_t classes = 0;
  char32_t code = utf8::invalid;
  const char* next = nullptr;
};

class scan {
 public:
  scan(const char* end, const unicode_table& table) : end_(end), table_(table) {}

  [[nodiscard]] const char* end() const { return end_; }

  // Classes of the character at p; at the end, no class and next == p.
  [[nodiscard]] character at(const char* p) const {
    if (p == end_) return {0, utf8::invalid, p};
    const utf8::decoded d = utf8::decode(p, end_);
    return {table_.classes(d.code), d.code, p + d.size};
  }

  // The end of the run of characters that have one of the classes in `mask`.
  [[nodiscard]] const char* run(const char* p, std::uint16_t mask) const {
    while (p != end_) {
      const character c = at(p);
      if ((c.classes & mask) == 0) break;
      p = c.next;
    }
    return p;
  }

  // The same, for at most `count` characters.
  [[nodiscard]] const char* run(const char* p, std::uint16_t mask, int count) const {
    for (; p != end_ && count > 0; --count) {
      const character c = at(p);
      if ((c.classes & mask) == 0) break;
      p = c.next;
    }
    return p;
  }

  // The end of the run of characters that have none of the classes in `mask`.
  [[nodiscard]] const char* run_without(const char* p, std::uint16_t mask) const {
    while (p != end_) {
      const character c = at(p);
      if ((c.classes & mask) != 0) break;
      p = c.next;
    }
    return p;
  }

 private:
  const char* end_;
  const unicode_table& table_;
};

bool is_newline(char32_t code) {
  return code == '\n' || code == '\r';
}

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

// The end of `\s*[\r\n]+|\s+(?!\S)|\s+` (the first alternative only with Newlines); a whitespace character
// stands at p.
template <bool Newlines>
const char* whitespace(const scan& s, const char* p) {
  const char* last = p;
  const char* after_newline = nullptr;
  const char* q = p;
  while (q != s.end()) {
    const character c = s.at(q);
    if ((c.classes & class_space) == 0) break;
    if (is_newline(c.code)) after_newline = c.next;
    last = q;
    q = c.next;
  }
  if (Newlines && after_newline != nullptr) return after_newline;
  return q == s.end() || last == p ? q : last;
}

// The end of the alternatives that follow the words in the llama3 and o200k patterns: numbers, punctuation,
// space.
template <int Digits, bool Slash, std::uint16_t NotPunctuation>
const char* tail(const scan& s, const char* p) {
  const character c = s.at(p);
  if (c.classes & class_number) return s.run(p, class_number, Digits);
  const char* const q = *p == ' ' ? c.next : p;
  if (q != s.end() && (s.at(q).classes & NotPunctuation) == 0) {
    const char* r = s.run_without(q, NotPunctuation);
    while (r != s.end() && (is_newline(static_cast<unsigned char>(*r)) || (Slash && *r == '/'))) ++r;
    return r;
  }
  if (c.classes & class_space) return whitespace<true>(s, p);
  return c.next;
}

template <int Digits, std::uint16_t Word>
const char* scan_llama3(const char* p, const char* end, const unicode_table& table) {
  const scan s(end, table);
  if (const char* q = contraction<true>(p, end); q != p) return q;
  const character c = s.at(p);
  if (c.classes & Word) return s.run(c.next, Word);
  if ((c.classes & class_number) == 0 && !is_newline(c.code)) {
    const character d = s.at(c.next);
    if (d.classes & Word) return s.run(d.next, Word);
  }
  return tail<Digits, false, class_none_of_lns | Word>(s, p);
}

const char* scan_gpt2(const char* p, const char* end, const unicode_table& table) {
  const scan s(end, table);
  if (const char* q = contraction<false>(p, end); q != p) return q;
  const char* const q = *p == ' ' && p + 1 != end ? p + 1 : p;
  const character c = s.at(q);
  if (c.classes & class_letter) return s.run(c.next, class_letter);
  if (c.classes & class_number) return s.run(c.next, class_number);
  if ((c.classes & class_space) == 0) return s.run_without(c.next, class_none_of_lns);
  return whitespace<false>(s, p);
}

// The end of `[upper]*[lower]+` from p, or nullptr. Where the run of `upper` has consumed every `lower`, it
// gives back as little as the pattern's backtracking would.
const char* lower_word(const scan& s, const char* p) {
  const char* after_lower = nullptr;
  const char* q = p;
  while (q != s.end()) {
    const character c = s.at(q);
    if ((c.classes & class_upper) == 0) break;
    if (c.classes & class_lower) after_lower = c.next;
    q = c.next;
  }
  const char* const r = s.run(q, class_lower);
  return r != q ? r : after_lower;
}

// The end of `[upper]+[lower]*` from p, or nullptr.
const char* upper_word(const scan& s, const char* p) {
  const char* const q = s.run(p, class_upper);
  return q == p ? nullptr : s.run(q, class_lower);
}

template <int Digits, bool Contractions>
const char* scan_o200k(const char* p, const char* end, const unicode_table& table) {
  const scan s(end, table);
  const character c = s.at(p);
  const bool prefix = (c.classes & (class_letter | class_number)) == 0 && !is_newline(c.code);
  const char* word = nullptr;
  if (prefix) word = lower_word(s, c.next);
  if (word == nullptr) word = lower_word(s, p);
  if (word == nullptr && prefix) word = upper_word(s, c.next);
  if (word == nullptr) word = upper_word(s, p);
  if (word != nullptr) return Contractions ? contraction<true>(word, end) : word;
  return tail<Digits, true, class_none_of_lns>(s, p);
}

template <std::uint16_t Mask>
const char* isolate_each(const char* p, const char* end, const unicode_table& table) {
  const scan s(end, table);
  const character c = s.at(p);
  return c.classes & Mask ? c.next : s.run_without(c.next, Mask);
}

template <std::uint16_t Mask>
const char* isolate_run(const char* p, const char* end, const unicode_table& table) {
  const scan s(end, table);
  const character c = s.at(p);
  return c.classes & Mask ? s.run(c.next, Mask) : s.run_without(c.next, Mask);
}

const char* isolate_ascii_digits_3(const char* p, const char* end, const unicode_table&) {
  const auto triple = [end](const char* q) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    return end - q >= 3 && digit(q[0]) && digit(q[1]) && digit(q[2]);
  };
  if (triple(p)) return p + 3;
  while (p != end && !triple(p)) ++p;
  return p;
}

const char* isolate_punctuation(const char* p, const char* end, const unicode_table& table) {
  const scan s(end, table);
  const auto matches = [](const character& c) {
    return (c.classes & class_punctuation) != 0 ||
           (c.code < 0x80 &&
            std::string_view("$+<=>^~|").find(static_cast<char>(c.code)) != std::string_view::npos);
  };
  const bool first = matches(s.at(p));
  while (p != end) {
    const character c = s.at(p);
    if (matches(c) != first) break;
    p = c.next;
  }
  return p;
}

const char* scan_metaspace(const char* p, const char* end, const unicode_table&) {
  const std::string_view rest(p, static_cast<std::size_t>(end - p));
  const std::size_t next = rest.find("\xE2\x96\x81", 1);
  return next == std::string_view::npos ? end : p + next;
}

}  // namespace

pretokenizer::pretokenizer(const std::vector<split_rule>& stages) : table_(&unicode_table::instance()) {
  for (const split_rule stage : stages) {
    scanners_.push_back([stage]() -> scanner {
      switch (stage) {
        case split_rule::gpt2: return scan_gpt2;
        case split_rule::llama3: return scan_llama3<3, class_letter>;
        case split_rule::qwen2: return scan_llama3<1, class_letter>;
        case split_rule::qwen35: return scan_llama3<1, class_letter | class_mark>;
        case split_rule::o200k: return scan_o200k<3, true>;
        case split_rule::tekken: return scan_o200k<1, false>;
        case split_rule::digit_each: return isolate_each<class_number>;
        case split_rule::digit_run: return isolate_run<class_number>;
        case split_rule::ascii_digits_3: return isolate_ascii_digits_3;
        case split_rule::punctuation_run: return isolate_punctuation;
        case split_rule::metaspace_start: return scan_metaspace;
      }
      return scan_gpt2;
    }());
  }
}

}  // namespace orcd::engine
