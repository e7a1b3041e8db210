// Brings forms of older drafts and of OpenAPI to those of JSON Schema 2020-12. Throws grammar_failure. One
// thread; copies are charged to its compile_budget.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>

namespace orcd::engine::grammar {

/// Brings forms of older drafts and of OpenAPI to those of 2020-12: nullable to a type, a list in `items` to
/// prefixItems, exclusive bounds that are true or false to numbers, dependencies to dependentRequired and
/// dependentSchemas; `contains` gets its minContains.
void modernize(boost::json::object& schema, const std::string& where);

/// That of dependencies alone.
void modernize_dependencies(boost::json::object& schema, const std::string& where);

inline constexpr auto unevaluated = std::to_array<const char*>({"unevaluatedProperties", "unevaluatedItems"});

/// Brings what one of these keywords asks for to additionalProperties or items of `out`, the schema with all
/// that evaluates.
void close_unevaluated(boost::json::object& out, const char* keyword, const boost::json::value& asked);

/// Brings those of `schema` to `out`, its copy; refuses them beside what evaluates in other schemas.
void close_unevaluated(boost::json::object& out, const boost::json::object& schema, const std::string& where);

}  // namespace orcd::engine::grammar
