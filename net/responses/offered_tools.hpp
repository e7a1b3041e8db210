// `tools` and `tool_choice` of a /v1/responses request, in the form of /v1/chat/completions. Pure. Private to
// net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "net/responses/tool_names.hpp"

namespace orcd::net {

/// The tools that the model can call. Functions are as they are; a custom tool is a function of one text, and
/// a function of a namespace has the namespace in its name. Tools of a server (web search, images) and those
/// that need a way of calling that models of files have not learnt (shells, patches, tool search) are left
/// out: with tool_choice auto a model may always do without.
struct response_tools {
  boost::json::array functions;    ///< for the chat
  std::vector<std::string> paths;  ///< of each function, in the request: "tools[1].tools[0]"
  boost::json::array told;         ///< those of the request that are offered, for the answer
  tool_names names;
  std::vector<std::string> left_types;  ///< of those that are left out
};

/// Errors: invalid_request with the path; tools that a request has for their own sake (files, code, MCP) are
/// refused by type.
[[nodiscard]] engine::result<response_tools> read_response_tools(const boost::json::value& tools);

/// The choice as a chat has it. `allowed_tools` takes the others out of `offered`.
[[nodiscard]] engine::result<boost::json::value> read_response_choice(const boost::json::value& choice,
                                                                      response_tools& offered);

}  // namespace orcd::net
