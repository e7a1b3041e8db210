// Text with the semantics of Python's str, over valid UTF-8: positions count code points, white space and
// case are Unicode's. Case follows the simple mappings, and for the sharp s Python's; other one-to-many
// mappings are left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/jinja/template_work.hpp"

namespace orcd::engine::jinja {

/// Whether it is white space for str.isspace() and \s.
[[nodiscard]] bool is_space(char32_t code) noexcept;

/// The number of code points.
[[nodiscard]] std::size_t text_length(std::string_view text) noexcept;
/// The byte at which code point `index` starts; text.size() at or after the end.
[[nodiscard]] std::size_t text_offset(std::string_view text, std::size_t index) noexcept;
/// The byte at which the `count`-th code point from the end starts (1 is the last one); text.size() if there
/// are fewer.
[[nodiscard]] std::size_t text_offset_from_end(std::string_view text, std::size_t count) noexcept;
/// Start of the code point that ends before `end`, which is not 0.
[[nodiscard]] std::size_t code_before(std::string_view text, std::size_t end) noexcept;
/// Bytes of the code point that starts at `at`.
[[nodiscard]] std::size_t code_size(std::string_view text, std::size_t at) noexcept;
[[nodiscard]] char32_t code_at(std::string_view text, std::size_t at) noexcept;
[[nodiscard]] bool is_ascii(std::string_view text) noexcept;

/// The text without leading or trailing white space. These functions charge for what they remove.
[[nodiscard]] std::string_view strip_left(work_meter& meter, std::string_view text);
[[nodiscard]] std::string_view strip_right(work_meter& meter, std::string_view text);
/// The text without leading or trailing code points that occur in `set`.
[[nodiscard]] std::string_view strip_left(work_meter& meter, std::string_view text, std::string_view set);
[[nodiscard]] std::string_view strip_right(work_meter& meter, std::string_view text, std::string_view set);

[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] std::string capitalize(std::string_view text);
/// str.title(): capitals after every character without case.
[[nodiscard]] std::string title(std::string_view text);
inline constexpr std::size_t longest_escape = 5;
/// The text with & < > and quotes as character references, each at most longest_escape bytes.
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
/// str.isalpha() and the like: false for an empty text.
[[nodiscard]] bool all_of_class(std::string_view text, text_class which) noexcept;

}  // namespace orcd::engine::jinja
