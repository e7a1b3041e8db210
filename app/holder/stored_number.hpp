// Numbers in the names of what a service manager keeps.
#pragma once

#include <charconv>
#include <string_view>

namespace orcd::app {

/// Takes a number from the beginning of a text, as std::to_string() writes it; false where there is none.
template <class T>
[[nodiscard]] bool take_number(std::string_view& text, T& out) {
  const auto* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, out);
  if (read.ec != std::errc{} || text.starts_with('0') != (out == 0)) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return true;
}

}  // namespace orcd::app
