// Merges schemas that apply to the same value: allOf, a $ref with keywords beside it, and the keywords beside
// anyOf. Throws grammar_failure. One thread; values that are visited and copied are charged to its
// compile_budget, and results must not outlive that.
#pragma once

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

[[noreturn]] void fail(const std::string& where, std::string what);

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

[[nodiscard]] bool same_value(const boost::json::value& a, const boost::json::value& b);

/// What a keyword of JSON Schema means to the compiler.
enum class keyword_kind { constraint, annotation, unsupported };
[[nodiscard]] keyword_kind kind_of_keyword(std::string_view name) noexcept;

/// `where` with one more step of a JSON pointer.
[[nodiscard]] std::string deeper(const std::string& where, std::string_view step);

/// The schema in `root` that "#", "#/$defs/x" and the like refer to.
[[nodiscard]] const boost::json::value& resolve_reference(const boost::json::value& root,
                                                          std::string_view reference,
                                                          const std::string& where);

/// The names that `required` lists, which must be strings.
[[nodiscard]] name_set names_of(const boost::json::value* required, const std::string& where);

/// Copies a value; charged to the thread's compile_budget.
template <class Json>
[[nodiscard]] Json copied(const Json& value) {
  return Json(value, compile_budget::json());
}

/// Brings forms of older drafts and of OpenAPI to those of 2020-12: nullable to a type, a list in `items` to
/// prefixItems.
void modernize(boost::json::object& schema, const std::string& where);

/// `items` is about what comes after the prefix of its own schema: refuses it beside the prefixItems of
/// another.
void refuse_crossed_items(const boost::json::object& a, const boost::json::object& b,
                          const std::string& where);

/// A schema that is valid where both are. Refuses what has no single form (two patterns, two anyOf).
[[nodiscard]] boost::json::object merge_schemas(boost::json::object a, const boost::json::object& b,
                                                const std::string& where);

/// The constraints of `schema` with $ref and allOf resolved; annotations are left out. `schema` is an object.
[[nodiscard]] boost::json::object flatten_schema(const boost::json::value& root,
                                                 const boost::json::value& schema, const std::string& where,
                                                 std::uint32_t depth);

/// Whether no value that is generated for `made` is valid under `other` (both flat): by type, by a constant
/// of a common property, or by a property that one has and the other cannot.
[[nodiscard]] bool excludes(const boost::json::object& made, const boost::json::object& other);

}  // namespace orcd::engine::grammar
