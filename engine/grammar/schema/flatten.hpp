// The flat form of a schema: one object that says all of it. Throws grammar_failure. One thread; what is made
// is charged to its compile_budget and must not outlive that.
//
// A flat schema has no $ref, allOf, const, then, else, dependentRequired and dependentSchemas. In it "not" is
// a list of what is_plain_exclusion() says, "if" a list of lists of schemas, one of each of which holds, and
// "pattern" may be a list. unevaluatedProperties and unevaluatedItems are there only beside alternatives.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

namespace orcd::engine::grammar {

/// The constraints of `schema` in the flat form; annotations are left out. `schema` is an object.
[[nodiscard]] boost::json::object flatten_schema(const boost::json::value& root,
                                                 const boost::json::value& schema, const std::string& where,
                                                 std::uint32_t depth);

/// Adds one more list to those under "if"; with one schema, that is merged instead.
void add_choice(const boost::json::value& root, boost::json::object& out, boost::json::array list,
                const std::string& where, std::uint32_t depth);

}  // namespace orcd::engine::grammar
