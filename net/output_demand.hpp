// What a chat request asks of the form of its output: tools, tool_choice, parallel_tool_calls and
// response_format. check_constraints() is the one place that says which of it is served; schemas are judged
// when they are compiled (grammar_cache.hpp). Pure. Source: issue 5 items 1 and 3, features.md (d) "OpenAI
// wire". Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>

#include "engine/base/error.hpp"

namespace orcd::net {

constexpr std::size_t tools_max = 128;

/// The fields as they were sent; null or empty where absent.
struct output_constraints {
  boost::json::array tools;
  boost::json::value tool_choice;
  boost::json::value response_format;
  bool parallel_tool_calls = true;
};

/// Which outputs the grammar lets through.
enum class output_rule {
  none,   ///< any text
  calls,  ///< calls of tools
  open,   ///< any text, in which the calls of strict functions are valid
  json,   ///< an object, or what a schema describes; where there are tools, that or calls
};

struct output_demand {
  boost::json::array tools;  ///< checked, as sent: for the template; empty with tool_choice "none"
  bool parallel = true;      ///< more than one call
  output_rule rule = output_rule::none;
  std::string function;       ///< calls: the only one that may be called; empty = any
  boost::json::value schema;  ///< json: null = any object
  bool strict = false;        ///< json: of the schema
};

/// Errors: invalid_request with the place as param.
[[nodiscard]] engine::result<output_demand> check_constraints(output_constraints asked);

}  // namespace orcd::net
