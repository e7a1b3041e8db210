// Values of enum and const: whether two are the same, and whether one is valid under a schema as far as that
// can be told without compiling it. One thread; visits are charged to its compile_budget. Source: JSON Schema
// 2020-12, 4.2.2 (numbers are equal when they have the same mathematical value).
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <span>
#include <string_view>

namespace orcd::engine::grammar {

[[nodiscard]] bool same_value(const boost::json::value& a, const boost::json::value& b);

/// The steps that visiting all of a value takes.
[[nodiscard]] std::uint64_t size_of(const boost::json::value& value);

/// Whether one of the values is the same as this one.
[[nodiscard]] bool has(std::span<const boost::json::value> list, const boost::json::value& value);

/// The items of an array; otherwise the value alone.
[[nodiscard]] std::span<const boost::json::value> as_list(const boost::json::value& value);

/// The values of enum or const; empty where a schema has neither.
[[nodiscard]] std::span<const boost::json::value> values_of(const boost::json::object& schema);

[[nodiscard]] bool has_type(const boost::json::value& value, std::string_view type);

/// The characters (code points) of a text in UTF-8.
[[nodiscard]] std::uint64_t characters_of(std::string_view text) noexcept;

enum class verdict : std::uint8_t { no, yes, unknown };

/// Whether the value is valid under a schema. Unknown where that takes what this does not understand:
/// references, patterns, formats, whatever is malformed.
[[nodiscard]] verdict judge(const boost::json::value& value, const boost::json::value& schema);

/// The same for one keyword of a schema.
[[nodiscard]] verdict judge_keyword(const boost::json::value& value, const boost::json::object& schema,
                                    std::string_view keyword);

}  // namespace orcd::engine::grammar
