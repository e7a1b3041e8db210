// The messages of a chat request: checked, and in the form that chat templates expect. Pure. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "engine/base/error.hpp"
#include "net/completion/left_fields.hpp"

namespace orcd::net {

class sent_media;

/// Roles are system, developer (becomes system), user, assistant, tool and function (becomes tool). Content
/// is a string or a list of text parts, which become one string with a line end between two; null and no
/// content are "". Parts of an assistant that think are its reasoning; a picture in a tool's result becomes a
/// text and is noted in `left`. The arguments of a past call become a JSON object, however they were sent;
/// what is none stays the text that it was. An assistant's function_call becomes a tool call, and ids that
/// are missing are made. Members of left_fields.hpp are left; with `strict_fields` they are refused. Errors:
/// invalid_request; param is the path: "messages[2].role". Media of user messages go to `media`, and
/// their marks into the text; where that is null they are refused.
[[nodiscard]] engine::result<boost::json::array> read_messages(const boost::json::value& value,
                                                               bool strict_fields = false,
                                                               left_names* left = nullptr,
                                                               sent_media* media = nullptr);

}  // namespace orcd::net
