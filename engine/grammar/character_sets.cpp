#include "engine/grammar/character_sets.hpp"

#include <algorithm>
#include <utility>

namespace orcd::engine::grammar {

code_set complement(code_set set) {
  std::sort(set.begin(), set.end(),
            [](const code_range& a, const code_range& b) { return a.first < b.first; });
  code_set out;
  char32_t next = 0;
  for (const code_range& range : set) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = std::max(next, static_cast<char32_t>(range.last + 1));
  }
  if (next <= last_code) out.push_back({next, last_code});
  return out;
}

const code_set& digit_codes() {
  static const code_set made{{'0', '9'}};
  return made;
}

const code_set& word_codes() {
  static const code_set made{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return made;
}

const code_set& space_codes() {
  static const code_set made{{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                             {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return made;
}

const code_set& line_end_codes() {
  static const code_set made{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return made;
}

}  // namespace orcd::engine::grammar
