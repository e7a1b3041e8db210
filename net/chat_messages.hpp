// The messages of a chat request: checked, and in the form that chat templates want. Pure.
// Source: features.md (d), model-facts: tool calls by family. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "engine/base/error.hpp"

namespace orcd::net {

/// Roles are system, developer (becomes system), user, assistant and tool. Content is a string or a list of
/// text parts, which become one string with a line end between two. The arguments of a past tool call are a
/// JSON object, however they were sent. Errors: invalid_request; param is the place: "messages[2].role".
[[nodiscard]] engine::result<boost::json::array> read_messages(const boost::json::value& value);

}  // namespace orcd::net
