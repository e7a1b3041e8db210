// Looks names up in the short tables that the source has: fields, words, members. Pure. Private to net/.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

namespace orcd::net {

[[nodiscard]] constexpr bool is_listed(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The row whose `name` it is; null without one.
template <class Rows>
[[nodiscard]] constexpr auto find_named(const Rows& rows, std::string_view name)
    -> decltype(std::data(rows)) {
  const auto found =
      std::find_if(std::begin(rows), std::end(rows), [name](const auto& row) { return row.name == name; });
  return found == std::end(rows) ? nullptr : &*found;
}

}  // namespace orcd::net
