// Merges schemas that apply to the same value: allOf, a $ref with keywords beside it, and the keywords beside
// anyOf. Throws grammar_failure. One thread; values that are visited and copied are charged to its
// compile_budget, and results must not outlive that.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine::grammar {

/// A schema that is valid where both are, which are flat (flatten.hpp). Refuses what has no single form (two
/// formats).
[[nodiscard]] boost::json::object merge_schemas(boost::json::object a, const boost::json::object& b,
                                                const std::string& where);

/// Whether no value that is generated for `made` is valid under `other` (both flat): by type, by a constant
/// of a common property, or by a property that one has and the other cannot.
[[nodiscard]] bool excludes(const boost::json::object& made, const boost::json::object& other);

}  // namespace orcd::engine::grammar
