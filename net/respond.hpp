// One-shot responses as values, and the one table from error code to HTTP status. Pure.
// Source: seed 000 section 17.4, M0-W-1500, WORK-3090, design 7.
#pragma once

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
  /// Further header fields; what they say is never freed.
  std::vector<std::pair<std::string_view, std::string_view>> headers;
  std::string allow;           ///< the Allow header of 405 and OPTIONS; empty = none
  unsigned retry_after_s = 0;  ///< the Retry-After header; 0 = none
  bool close = false;          ///< the connection is closed after this response
  std::string code;            ///< the error code, for logs; empty on success
};

/// The HTTP status of an error before the stream starts.
[[nodiscard]] unsigned http_status(engine::errc code) noexcept;

/// {"error":{"code","message","type","param","retriable"}} with Retry-After where waiting helps; refusals
/// that concern the whole worker also close the connection, so that a client turns elsewhere.
[[nodiscard]] reply make_error_reply(const engine::error& failure);

/// A refusal of HTTP itself (bad framing, timeout): INVALID_REQUEST under its own status; closes.
[[nodiscard]] reply make_protocol_reply(unsigned status, std::string_view message);

[[nodiscard]] reply make_json_reply(unsigned status, std::string body);

}  // namespace orcd::net
