// Text as Python's str sees it, over valid UTF-8: positions count code points, white space and case are
// Unicode's. Case follows the simple mappings, and the sharp s as Python has it; other one-to-many mappings
// are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace orcd::engine::jinja {

/// White space of str.isspace() and of \s.
[[nodiscard]] bool is_space(char32_t code) noexcept;

/// Code points.
[[nodiscard]] std::size_t text_length(std::string_view text) noexcept;
/// The byte at which code point `index` starts; text.size() at or after the end.
[[nodiscard]] std::size_t text_offset(std::string_view text, std::size_t index) noexcept;
/// Bytes of the code point that starts at `at`.
[[nodiscard]] std::size_t code_size(std::string_view text, std::size_t at) noexcept;
[[nodiscard]] char32_t code_at(std::string_view text, std::size_t at) noexcept;
[[nodiscard]] bool is_ascii(std::string_view text) noexcept;

/// Without leading or trailing white space.
[[nodiscard]] std::string_view strip_left(std::string_view text) noexcept;
[[nodiscard]] std::string_view strip_right(std::string_view text) noexcept;
/// Without leading or trailing code points that occur in `set`.
[[nodiscard]] std::string_view strip_left(std::string_view text, std::string_view set) noexcept;
[[nodiscard]] std::string_view strip_right(std::string_view text, std::string_view set) noexcept;

[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] std::string capitalize(std::string_view text);
/// str.title(): a capital after everything that is not cased.
[[nodiscard]] std::string title(std::string_view text);
/// With & < > and quotes as character references.
[[nodiscard]] std::string html_escaped(std::string_view text);
/// Where the next line of str.splitlines() ends and the one after it begins; both text.size() at the end.
struct line_end {
  std::size_t stop;
  std::size_t next;
};
[[nodiscard]] line_end find_line_end(std::string_view text, std::size_t from) noexcept;

enum class text_class : std::uint8_t {
  alphabetic,
  numeric,
  alphanumeric,
  digits,
  space,
  uppercase,
  lowercase
};
/// str.isalpha() and its like: false for an empty text.
[[nodiscard]] bool all_of_class(std::string_view text, text_class which) noexcept;

}  // namespace orcd::engine::jinja
