// Reads the members of a JSON object that stands somewhere inside a body. Each refusal names the path of what
// it refuses: "messages[2].content". Pure. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

/// The path of an element of a list: "messages[2]".
[[nodiscard]] std::string element_path(const std::string& list, std::size_t index);

/// "'PATH' must be WHAT, it is a number".
[[nodiscard]] engine::error refuse_kind(const std::string& path, std::string_view must,
                                        const boost::json::value& value);

/// The member of an object, unless it is absent or null.
[[nodiscard]] const boost::json::value* find_member(const boost::json::object& object, std::string_view name);

/// Refuses members that are not in the list, unless they are null.
[[nodiscard]] engine::result<void> only_members(const boost::json::object& object, const std::string& path,
                                                std::span<const std::string_view> known);

/// A string that must be there.
[[nodiscard]] engine::result<std::string_view> text_member(const boost::json::object& object,
                                                           const std::string& path, std::string_view name);

/// An object that must be there.
[[nodiscard]] engine::result<const boost::json::object*> object_member(const boost::json::object& object,
                                                                       const std::string& path,
                                                                       std::string_view name);

/// True or false; `absent` where it is not there.
[[nodiscard]] engine::result<bool> flag_member(const boost::json::object& object, const std::string& path,
                                               std::string_view name, bool absent = false);

}  // namespace orcd::net
