// Reads a JSON body into a tree: for requests that nest (messages, tools, schemas). As strict as the flat
// reader (json_reader.hpp): duplicate keys at any depth, invalid UTF-8 and lone surrogates are refused.
// Bounded by the length of the body, by depth and by the members of an object. Pure. Source: WORK-3120,
// reliability 2.4. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string_view>

#include "net/json_reader.hpp"

namespace orcd::net {

constexpr std::size_t json_depth_max = 64;
/// Of one object: what reads a body must not take long, and no honest object comes near.
constexpr std::size_t json_members_max = 4'096;

/// The body, which must be one object. Error: invalid_request with the byte where the JSON went wrong, the
/// key that is given twice, or the field with an object of too many members.
[[nodiscard]] engine::result<boost::json::object> read_json_tree(std::string_view body);

/// The value as a scalar; nothing for strings, arrays and objects.
[[nodiscard]] std::optional<json_scalar> scalar_of(const boost::json::value& value);

/// "a string", "an array", "null".
[[nodiscard]] std::string_view kind_name(const boost::json::value& value) noexcept;

}  // namespace orcd::net
