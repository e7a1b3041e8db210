// Unicode normalization form C of text that may hold invalid bytes, which stay as they are.
// n log n in the worst case: utf8proc alone is quadratic in a long run of combining marks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orcd::engine {

/// Whether NFC might change `text`. False for nearly all text, which then costs one pass and no copy.
[[nodiscard]] bool may_need_nfc(std::string_view text);

/// Appends the canonical decomposition of one code point, at most four.
void append_decomposed(char32_t code, std::vector<std::int32_t>& out);

/// Unicode 14 (utf8proc 2.8).
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace orcd::engine
