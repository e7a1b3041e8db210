// Responses that are written at once, as values, and the one table from error code to HTTP status. Pure.
// Source: M0-W-1500, WORK-3090.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

struct reply {
  unsigned status = 200;
  std::string_view content_type = "application/json";
  std::string body;
  std::string_view cache_control = "no-store";
  /// Further header fields; the views must point to text that is never freed.
  std::vector<std::pair<std::string_view, std::string_view>> headers;
  std::string allow;                     ///< the Allow header of 405 and OPTIONS; empty = none
  unsigned retry_after_s = 0;            ///< the Retry-After header; 0 = none
  bool close = false;                    ///< the connection is closed after this response
  std::string code;                      ///< the error code, for logs; empty on success
  std::optional<engine::error> failure;  ///< what the body tells, for an API that has other words for it
};

/// The API in whose words a request is answered. OpenAI's differ from the worker's own in three codes, by
/// which programs know what to do: context_length_exceeded, model_not_found and previous_response_not_found.
enum class api_words { worker, openai, anthropic, ollama };

/// The body of a refusal as OpenAI's API and the worker's own have it.
[[nodiscard]] std::string error_body(const engine::error& failure, unsigned status,
                                     api_words words = api_words::worker);

/// {"type":"error","error":{"type","message"},"request_id"}; an empty id is left out.
[[nodiscard]] std::string anthropic_error_body(const engine::error& failure, unsigned status,
                                               std::string_view request_id);

/// {"error":"..."}; that there is no such model is said in the words by which ollama's clients know it.
[[nodiscard]] std::string ollama_error_body(const engine::error& failure);

/// The HTTP status of an error before the stream starts.
[[nodiscard]] unsigned http_status(engine::errc code) noexcept;

/// {"error":{"code","message","type","param","retriable"}} with Retry-After where waiting helps; refusals
/// that concern the whole worker also close the connection, so that a client turns elsewhere.
[[nodiscard]] reply make_error_reply(const engine::error& failure);

/// A refusal of HTTP itself (bad framing, timeout): INVALID_REQUEST under its own status; closes.
[[nodiscard]] reply make_protocol_reply(unsigned status, std::string_view message);

[[nodiscard]] reply make_json_reply(unsigned status, std::string body);

}  // namespace orcd::net
