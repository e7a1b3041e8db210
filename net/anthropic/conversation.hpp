// The conversation of a /v1/messages request, in the form of /v1/chat/completions: system blocks, text, tool
// calls and their results, and thinking of earlier turns. Pure. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "engine/base/error.hpp"
#include "net/completion/left_fields.hpp"

namespace orcd::net {

class sent_media;

/// The member of a call's input that has arguments which were cut off: Anthropic's guide has the name.
inline constexpr const char* cut_arguments = "INVALID_JSON";

/// `system`: null, a string or text blocks. Neighbouring messages of one role become one, as the API has it.
/// A picture in the result of a call becomes a text and is noted in `left`; where that is null it is refused.
/// Other pictures of users go to `media`, likewise.
/// Errors: invalid_request with the path: "messages[1].content[0].type".
[[nodiscard]] engine::result<boost::json::array> read_conversation(const boost::json::value& system,
                                                                   const boost::json::value& messages,
                                                                   left_names* left = nullptr,
                                                                   sent_media* media = nullptr);

}  // namespace orcd::net
