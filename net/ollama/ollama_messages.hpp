// The messages of a POST /api/chat in the form of /v1/chat/completions. Pure. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "engine/base/error.hpp"

namespace orcd::net {

/// `thinking` becomes reasoning_content, `tool_name` name; the index of a call is left. Members that both
/// forms have stay as they are and are checked by who reads those (chat_messages.hpp). Errors:
/// invalid_request with the path as param, for images too: no model that is served sees any.
[[nodiscard]] engine::result<boost::json::array> read_ollama_messages(const boost::json::value& value);

/// Refuses a list of images that is not empty. Errors: invalid_request with `path` as param.
[[nodiscard]] engine::result<void> check_no_images(std::string_view path, const boost::json::value& value);

/// The tools of a request: one without `type` is a function.
[[nodiscard]] boost::json::value read_ollama_tools(const boost::json::value& value);

}  // namespace orcd::net
