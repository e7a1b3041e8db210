// What a request demands of its output: tools, tool_choice, parallel_tool_calls, response_format and the
// names that other servers have for it. check_constraints() alone decides which demands are served; schemas
// are judged when they are compiled (grammar_source.hpp). Pure. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

constexpr std::size_t tools_max = 128;

/// What an output must be, as llama-server and vLLM let a client say it.
enum class guided_kind { json, json_object, regex, choice, grammar };
struct guided_output {
  std::string field;  ///< the one that says it
  guided_kind kind = guided_kind::json;
  boost::json::value value;
};

/// The fields as they were sent; null or empty if absent.
struct constraint_fields {
  boost::json::array tools;
  boost::json::value tool_choice;
  boost::json::value response_format;
  bool parallel_tool_calls = true;
  std::optional<guided_output> guided{};
  bool strict_fields = false;  ///< refuse members that would be left
};

/// Which outputs the grammar allows.
enum class constraint_kind {
  none,   ///< any text
  calls,  ///< calls of tools
  open,   ///< any text, in which the calls of strict functions are valid
  json,   ///< an object, or what a schema describes; where there are tools, that or calls
  text,   ///< what `guided` describes, and nothing beside it
};

struct output_constraints {
  boost::json::array tools;  ///< checked, for the template; empty with tool_choice "none"
  bool parallel = true;      ///< more than one call
  constraint_kind kind = constraint_kind::none;
  std::string function;                        ///< calls: the only one that may be called; empty = any
  boost::json::value schema;                   ///< json: null = any object
  bool strict = false;                         ///< json: the schema's `strict`
  std::string field = "response_format";       ///< json, text: the request's field that asks for it
  guided_kind text_kind = guided_kind::regex;  ///< text: regex, choice or grammar
  std::vector<std::string> texts;              ///< text: the choices, or one pattern or grammar
};

/// The member `name` of the object at `path`, with the characters that a function's name may have.
[[nodiscard]] engine::result<std::string_view> function_name(const boost::json::object& object,
                                                             const std::string& path);

/// Errors: invalid_request with the path of the field as param.
[[nodiscard]] engine::result<output_constraints> check_constraints(constraint_fields asked);

}  // namespace orcd::net
