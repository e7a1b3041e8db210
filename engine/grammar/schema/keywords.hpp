// Words and paths of JSON Schema: what its keywords are to the compiler, how a part of a schema is named, and
// how it is refused. One thread; what is made is charged to its compile_budget and must not outlive that.
// Source: JSON Schema 2020-12; RFC 6901 for pointers.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "engine/grammar/compile_budget.hpp"

namespace orcd::engine::grammar {

inline constexpr std::uint32_t schema_depth_max = 64;

using name_set = std::unordered_set<std::string_view, std::hash<std::string_view>, std::equal_to<>,
                                    counted_allocator<std::string_view>>;

/// Refuses the schema.
[[noreturn]] void fail(const std::string& where, std::string what);

/// Refuses the schema because no value is valid there. Where there are alternatives, the others remain.
[[noreturn]] void contradict(const std::string& where, std::string what);

[[nodiscard]] inline std::string_view view(boost::json::string_view text) noexcept {
  return {text.data(), text.size()};
}

/// The most bytes of a path, and of one step of it, so that messages stay short.
inline constexpr std::size_t path_bytes_max = 1'024;
inline constexpr std::size_t path_step_bytes_max = 128;

/// A reference as a path for messages.
[[nodiscard]] inline std::string path_of(std::string_view reference) {
  return std::string(reference.substr(0, path_bytes_max));
}

/// `where` with one more step of a JSON pointer.
[[nodiscard]] std::string deeper(const std::string& where, std::string_view step);

/// What a keyword of JSON Schema means to the compiler. One that is unknown is an annotation.
enum class keyword_kind { constraint, annotation, unsupported };
[[nodiscard]] keyword_kind kind_of_keyword(std::string_view name) noexcept;
/// Whether JSON Schema or OpenAPI's schemas have the keyword; false only for annotations.
[[nodiscard]] bool is_known_keyword(std::string_view name) noexcept;

/// The schema in `root` that "#", "#/$defs/x" and the like refer to.
[[nodiscard]] const boost::json::value& resolve_reference(const boost::json::value& root,
                                                          std::string_view reference,
                                                          const std::string& where);

/// The names that `required` lists, which must be strings.
[[nodiscard]] name_set names_of(const boost::json::value* required, const std::string& where);

/// The types of which each value has exactly one.
inline constexpr auto type_names =
    std::to_array<std::string_view>({"null", "boolean", "string", "number", "array", "object"});

/// Text as JSON.
[[nodiscard]] inline boost::json::string word(std::string_view text) {
  return boost::json::string(text.data(), text.size(), compile_budget::json());
}

/// Copies a value; charged to the thread's compile_budget.
template <class Json>
[[nodiscard]] Json copied(const Json& value) {
  return Json(value, compile_budget::json());
}

/// An object of one member, and of two.
[[nodiscard]] boost::json::object object_of(std::string_view name, boost::json::value value);
[[nodiscard]] boost::json::object object_of(std::string_view name, boost::json::value value,
                                            std::string_view other, boost::json::value other_value);

/// A list of one and of two values.
[[nodiscard]] boost::json::array list_of(boost::json::value first);
[[nodiscard]] boost::json::array list_of(boost::json::value first, boost::json::value second);

}  // namespace orcd::engine::grammar
