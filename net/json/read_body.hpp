// Hands the members of a JSON object to whatever takes them, one by one. Pure. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string_view>
#include <utility>

#include "engine/base/error.hpp"
#include "net/json/json_value.hpp"

namespace orcd::net {

/// Calls `take(name, value)` for each member, in order, until it refuses one.
template <class Take>
[[nodiscard]] engine::result<void> each_member(const boost::json::object& object, const Take& take) {
  for (const auto& member : object) {
    const std::string_view name = member.key();
    if (const engine::result<void> taken = take(name, member.value()); !taken) return taken;
  }
  return {};
}

/// The members of a body. Error: as read_json_tree(), or the first of take's own.
template <class Take>
[[nodiscard]] engine::result<void> read_body(std::string_view body, const Take& take) {
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  return each_member(*tree, take);
}

/// What `fields` makes of a body: its take(name, value) gets each member, its finish() gives the request.
template <class Fields>
[[nodiscard]] auto read_fields(std::string_view body, Fields fields) -> decltype(std::move(fields).finish()) {
  const auto read = read_body(body, [&fields](std::string_view name, const boost::json::value& value) {
    return fields.take(name, value);
  });
  if (!read) return read.error();
  return std::move(fields).finish();
}

}  // namespace orcd::net
