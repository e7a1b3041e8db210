// Letters that differ in case alone, from utf8proc.
#include <utf8proc.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/grammar/character_sets.hpp"
#include "engine/grammar/compile_budget.hpp"

namespace orcd::engine::grammar {

namespace {

struct case_pair {
  char32_t code, other;
};

/// Each letter with each of its other cases, in the order of the letters. Made once, in some milliseconds.
const std::vector<case_pair>& case_pairs() {
  static const std::vector<case_pair> made = [] {
    constexpr char32_t cased_most = 0x1FFFF;
    std::map<utf8proc_int32_t, std::vector<char32_t>> same;
    for (char32_t code = 0; code <= cased_most; ++code) {
      const auto letter = static_cast<utf8proc_int32_t>(code);
      const bool turkish = code == 0x130 || code == 0x131;  // i in one language alone
      const utf8proc_int32_t lower = turkish ? letter : utf8proc_tolower(utf8proc_toupper(letter));
      if (lower == letter && utf8proc_toupper(letter) == letter) continue;
      same[lower].push_back(code);
    }
    std::vector<case_pair> out;
    for (const auto& [lower, codes] : same) {
      for (const char32_t code : codes) {
        for (const char32_t other : codes) {
          if (other != code) out.push_back({code, other});
        }
      }
    }
    std::sort(out.begin(), out.end(), [](const case_pair& a, const case_pair& b) {
      return std::pair(a.code, a.other) < std::pair(b.code, b.other);
    });
    return out;
  }();
  return made;
}

}  // namespace

code_set with_other_cases(code_set set) {
  set = complement(complement(std::move(set)));
  const auto& pairs = case_pairs();
  const std::size_t given = set.size();
  for (std::size_t i = 0; i < given; ++i) {
    const code_range range = set[i];
    auto at = std::lower_bound(pairs.begin(), pairs.end(), range.first,
                               [](const case_pair& pair, char32_t code) { return pair.code < code; });
    for (; at != pairs.end() && at->code <= range.last; ++at) set.push_back({at->other, at->other});
  }
  compile_budget::work(8 + set.size());
  return complement(complement(std::move(set)));
}

}  // namespace orcd::engine::grammar
