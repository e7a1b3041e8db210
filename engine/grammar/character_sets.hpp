// Sets of Unicode code points, for the classes of regular expressions and of GBNF.
#pragma once

#include <compare>
#include <string_view>
#include <vector>

namespace orcd::engine::grammar {

inline constexpr char32_t last_code = 0x10FFFF;

struct code_range {
  char32_t first, last;
  auto operator<=>(const code_range&) const = default;
};
using code_set = std::vector<code_range>;

/// The code points that are not in the set; sorted and without overlaps.
[[nodiscard]] code_set complement(code_set set);

/// The set with the other cases of its letters; sorted and without overlaps. Any thread.
[[nodiscard]] code_set with_other_cases(code_set set);

/// \d, \w and \s of ECMAScript, and what '.' does not match there.
[[nodiscard]] const code_set& digit_codes();
[[nodiscard]] const code_set& word_codes();
[[nodiscard]] const code_set& space_codes();
[[nodiscard]] const code_set& line_end_codes();

/// A general category or a script: "Lu", "L", "Uppercase_Letter", "gc=Lu", "General_Category=Letter",
/// "Script=Greek", "sc=Grek", and "Any", "ASCII"; null for other names, among them scripts that no living
/// language is written in. The letter C leaves out what is unassigned (Cn). The sets are made once, in some
/// milliseconds. Any thread.
[[nodiscard]] const code_set* unicode_property(std::string_view name);

}  // namespace orcd::engine::grammar
