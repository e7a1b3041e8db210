// The body of POST /v1/responses: bytes to a validated request for a chat, and what its answer needs to know
// of it. A field is honoured or refused by name; docs/api/responses.md lists them. What both APIs have is
// checked by the fields of /v1/chat/completions (completion_fields.hpp). Pure. Private to net/.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "net/completion/completion_request.hpp"
#include "net/responses/tool_names.hpp"
#include "net/store/response_store.hpp"

namespace orcd::net {

struct response_notes final : request_notes {
  tool_names names;
  bool seals_reasoning = false;  ///< reasoning items have `encrypted_content`
  bool logprobs = false;
  bool timings = false;                 ///< the response has llama-server's, and so have events of its text
  std::optional<response_shelf> shelf;  ///< where the response is kept; unset: nowhere
  kept_turns earlier;                   ///< those that the request goes on from
  std::shared_ptr<const kept_items> input;
};

/// The request's `notes` are response_notes; `echo` is the part of the response that repeats the request.
/// Errors: invalid_request with the field as param, not_found for another model's name.
[[nodiscard]] engine::result<completion_request> parse_response(std::string_view body,
                                                                const completion_limits& limits);

/// A refusal of the chat that the request became, with the field's name in this API.
[[nodiscard]] engine::error in_words_of_responses(engine::error refusal);

}  // namespace orcd::net
