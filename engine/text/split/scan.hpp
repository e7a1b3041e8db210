// What the scanners of the pre-tokenizer share: characters with their classes, and runs of them. Private to
// this folder.
#pragma once

#include <utility>

#include "engine/text/split/split_rule.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine::split {

// One character: its classes, and where the next one starts.
struct character {
  std::uint16_t classes = 0;
  char32_t code = utf8::invalid;
  const char* next = nullptr;

  [[nodiscard]] bool is(std::uint16_t mask) const { return (classes & mask) != 0; }
};

class scan {
 public:
  scan(const char* end, const unicode_table& table) : end_(end), table_(table) {}

  [[nodiscard]] const char* end() const { return end_; }

  // The character at p; at the end, one without a class, and next == p.
  [[nodiscard]] character at(const char* p) const {
    if (p == end_) return {0, utf8::invalid, p};
    const utf8::decoded d = utf8::decode(p, end_);
    return {table_.classes(d.code), d.code, p + d.size};
  }

  // The end of the run of characters for which test(character) is true.
  template <class Test>
  [[nodiscard]] const char* run_while(const char* p, const Test& test) const {
    while (p != end_) {
      const character c = at(p);
      if (!test(c)) break;
      p = c.next;
    }
    return p;
  }

  // The end of the run of characters that have one of the classes in `mask`.
  [[nodiscard]] const char* run(const char* p, std::uint16_t mask) const {
    return run_while(p, [mask](const character& c) { return c.is(mask); });
  }

  // The same, for at most `count` characters.
  [[nodiscard]] const char* run(const char* p, std::uint16_t mask, int count) const {
    return run_while(p, [mask, &count](const character& c) { return count-- > 0 && c.is(mask); });
  }

  // The end of the run of characters that have none of the classes in `mask`.
  [[nodiscard]] const char* run_without(const char* p, std::uint16_t mask) const {
    return run_while(p, [mask](const character& c) { return !c.is(mask); });
  }

 private:
  const char* end_;
  const unicode_table& table_;
};

inline bool is_newline(char32_t code) {
  return code == '\n' || code == '\r';
}

// A scanner of a pattern that does not match everything: match(scan, p) is the end of the match at p, or
// nullptr. A match that ends the text before it is kept in `note`, so that it is looked for once.
template <auto Match>
const char* scan_matches(const char* p, const char* end, const unicode_table& table, const char*& note) {
  if (note != nullptr) return std::exchange(note, nullptr);
  const scan s(end, table);
  if (const char* const match = Match(s, p)) return match;
  for (p = s.at(p).next; p != end; p = s.at(p).next) {
    note = Match(s, p);
    if (note != nullptr) break;
  }
  return p;
}

// The scanners of each file of this folder; nullptr for a rule of another file.
[[nodiscard]] split_scanner find_word_scanner(split_rule rule);
[[nodiscard]] split_scanner find_run_scanner(split_rule rule);
[[nodiscard]] split_scanner find_digit_scanner(split_rule rule);

}  // namespace orcd::engine::split
