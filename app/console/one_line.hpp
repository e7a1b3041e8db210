// Text of others on one line of a terminal or a log: values of options, names of files, lines of a
// configuration, what a model's file says. Whatever bytes it has, it begins no other line, moves no cursor
// and hides nothing. Pure.
#pragma once

#include <string>
#include <string_view>

namespace orcd::app {

/// Whether a code point shows nothing itself but changes what is around it: a control character (C0, DEL,
/// C1), the end of a line, a change of the writing's direction.
[[nodiscard]] bool is_control(char32_t code) noexcept;

/// The text with the bytes of control characters, and those that are no UTF-8, as \x1b.
[[nodiscard]] std::string one_line(std::string_view text);

/// A whole line of standard error, "ABOUT: TEXT" and its end. `about`: the program, or a file's name.
[[nodiscard]] std::string complaint(std::string_view about, std::string_view text);

}  // namespace orcd::app
