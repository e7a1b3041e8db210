// The bodies of POST /v1/messages and /v1/messages/count_tokens: bytes to a validated request for a chat. A
// field is honoured or refused by name; docs/api/anthropic.md lists them. What both APIs have is checked by
// the fields of /v1/chat/completions (completion_fields.hpp). Pure. Private to net/.
#pragma once

#include <string_view>

#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// Errors: invalid_request with the field as param, not_found for another model's name.
[[nodiscard]] engine::result<completion_request> parse_messages(std::string_view body,
                                                                const completion_limits& limits);

/// The same for a request whose tokens are only to be counted.
[[nodiscard]] engine::result<completion_request> parse_count_tokens(std::string_view body,
                                                                    const completion_limits& limits);

/// A refusal that came after the body was read, with the field's name in this API. The API's errors have no
/// place for it but the message.
[[nodiscard]] engine::error in_words_of_messages(engine::error refusal);

}  // namespace orcd::net
