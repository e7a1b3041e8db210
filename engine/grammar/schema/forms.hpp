// Brings forms of older drafts and of OpenAPI to those of JSON Schema 2020-12. Throws grammar_failure. One
// thread; copies are charged to its compile_budget.
#pragma once

#include <boost/json/object.hpp>
#include <string>

namespace orcd::engine::grammar {

/// Brings forms of older drafts and of OpenAPI to those of 2020-12: nullable to a type, a list in `items` to
/// prefixItems.
void modernize(boost::json::object& schema, const std::string& where);

/// Brings unevaluatedProperties and unevaluatedItems of `schema` to additionalProperties and items of `out`,
/// its copy; refuses them beside what evaluates in other schemas.
void close_unevaluated(boost::json::object& out, const boost::json::object& schema, const std::string& where);

}  // namespace orcd::engine::grammar
