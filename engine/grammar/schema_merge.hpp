// Schemas that apply to the same value, made one: allOf, a $ref with keywords beside it, and the keywords
// beside anyOf. Throws grammar_failure. One thread.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace orcd::engine::grammar {

inline constexpr std::uint32_t schema_depth_max = 64;

[[noreturn]] void fail(const std::string& where, std::string what);

/// What a compilation may spend on dissolving, merging and comparing: values looked at or copied. The
/// functions here charge the budget that lives on their thread; without one they know no limit.
inline constexpr std::uint64_t merge_steps_max = 2'000'000;
class merge_budget {
 public:
  merge_budget() noexcept;
  ~merge_budget();
  merge_budget(const merge_budget&) = delete;
  merge_budget& operator=(const merge_budget&) = delete;
  /// Throws grammar_failure when nothing is left.
  static void take(std::uint64_t steps, const std::string& where);

 private:
  std::uint64_t left_ = merge_steps_max;
  merge_budget* before_;
};

[[nodiscard]] inline std::string_view view(boost::json::string_view text) noexcept {
  return {text.data(), text.size()};
}

/// What a keyword of JSON Schema means to the compiler.
enum class keyword_kind { constraint, annotation, unsupported };
[[nodiscard]] keyword_kind kind_of_keyword(std::string_view name) noexcept;

/// `where` with one more step of a JSON pointer.
[[nodiscard]] std::string deeper(const std::string& where, std::string_view step);

/// The schema that "#", "#/$defs/x" and the like name in `root`.
[[nodiscard]] const boost::json::value& resolve_reference(const boost::json::value& root,
                                                          std::string_view reference,
                                                          const std::string& where);

/// Both at once. Refuses what has no single form (two patterns, two anyOf).
[[nodiscard]] boost::json::object merge_schemas(boost::json::object a, const boost::json::object& b,
                                                const std::string& where);

/// Constraints of `schema` with $ref and allOf dissolved; annotations are left out. `schema` is an object.
[[nodiscard]] boost::json::object flatten_schema(const boost::json::value& root,
                                                 const boost::json::value& schema, const std::string& where,
                                                 std::uint32_t depth);

/// Whether no value that is generated for `made` is valid under `other` (both flat): by type, by a constant
/// of a common property, or by a property that one has and the other cannot.
[[nodiscard]] bool excludes(const boost::json::object& made, const boost::json::object& other);

}  // namespace orcd::engine::grammar
