// Reads a JSON body into a tree. Strict: duplicate keys at any depth, invalid UTF-8 and lone surrogates are
// refused. Bounded by the length of the body, by depth and by the members of an object. Pure.
// Source: WORK-3120. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "engine/base/error.hpp"

namespace orcd::net {

constexpr std::size_t json_depth_max = 64;
/// Members of one object. Bounds the time of reading a body; no honest object comes near.
constexpr std::size_t json_members_max = 4'096;

/// The body, which must be one object. Error: invalid_request with the byte where the JSON went wrong, the
/// key that is given twice, or the field with an object of too many members.
[[nodiscard]] engine::result<boost::json::object> read_json_tree(std::string_view body);

/// A JSON scalar other than a string. Integers above 2^63-1 are unsigned; above 2^64-1 they are double.
using json_scalar = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double>;

/// What kind of value it is, for messages: "a number", "null".
[[nodiscard]] std::string_view kind_name(const json_scalar& value) noexcept;

/// The value as a scalar; nothing for strings, arrays and objects.
[[nodiscard]] std::optional<json_scalar> scalar_of(const boost::json::value& value);

/// "a string", "an array", "null".
[[nodiscard]] std::string_view kind_name(const boost::json::value& value) noexcept;

/// A name as a message may show it: cut to 64 bytes.
[[nodiscard]] std::string shown_name(std::string_view name);

}  // namespace orcd::net
