// A whole request, free of the library that parsed it, and the head of a response as bytes. Private to net/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/schedule/job.hpp"
#include "net/respond.hpp"

namespace orcd::net {

struct http_request {
  std::string method;
  std::string target;
  std::string body;
  std::string request_id;               ///< the client's, when usable, or ours
  std::optional<std::string> deadline;  ///< X-Deadline as received
  std::optional<std::string> imc_id;    ///< KRONK_IMC_ID as received
  std::string authorization;            ///< as received; a secret
  std::string if_none_match;            ///< as received
  std::string allowed_origin;           ///< Access-Control-Allow-Origin of the answer; empty: none
  bool http_1_0 = false;
  bool keep_alive = true;
  engine::steady_time received_at{};
};

/// The head and body of a response; HEAD gets the head alone.
[[nodiscard]] std::string render_reply(const reply& response, const http_request& request, bool keep_alive);
/// The head of an event stream; its body is chunked except in HTTP/1.0.
[[nodiscard]] std::string render_stream_head(const http_request& request, bool keep_alive);
/// `frames` as one chunk, and the end of the body when `last`.
[[nodiscard]] std::string chunk_of(std::string_view frames, bool last);

}  // namespace orcd::net
