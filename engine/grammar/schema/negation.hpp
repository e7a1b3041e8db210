// What is not valid under a schema, as a list of schemas: `not`, and the conditions that stand on it (if,
// dependentSchemas, oneOf whose alternatives overlap). Throws grammar_failure with the path of what has no
// such form. One thread; what is made is charged to its compile_budget and must not outlive that.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>

namespace orcd::engine::grammar {

/// Schemas such that whatever is valid under one of them is not valid under `schema`; none where everything
/// is valid under that. All values that `schema` refuses are valid under one of them, but for:
/// values that break a known `format` or a false `additionalProperties` and nothing else; arrays whose only
/// wrong items are not the first one; other arrays of the same length as a constant; numbers that a double
/// does not tell from a constant.
[[nodiscard]] boost::json::array alternatives_to(const boost::json::value& root,
                                                 const boost::json::value& schema, const std::string& where,
                                                 std::uint32_t depth);

/// Whether string() and number() themselves leave out what is valid under `excluded`, beside this type: a
/// list of strings, a pattern, the integers, multiples.
[[nodiscard]] bool is_plain_exclusion(const boost::json::object& schema, const boost::json::value& excluded);

}  // namespace orcd::engine::grammar
