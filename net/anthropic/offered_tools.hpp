// `tools` and `tool_choice` of a /v1/messages request, in the form of /v1/chat/completions. Pure. Private to
// net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "engine/base/error.hpp"
#include "net/completion/left_fields.hpp"

namespace orcd::net {

/// Searches of Anthropic's own servers are left out and noted in `left`: clients list them beside their
/// tools, and a model may do without. Errors: invalid_request with the path: "tools[0].input_schema".
[[nodiscard]] engine::result<boost::json::array> read_offered_tools(const boost::json::value& tools,
                                                                    left_names& left);

struct chosen_tools {
  boost::json::value choice;  ///< as `tool_choice` of /v1/chat/completions
  bool parallel = true;
};
[[nodiscard]] engine::result<chosen_tools> read_chosen_tools(const boost::json::value& choice);

}  // namespace orcd::net
