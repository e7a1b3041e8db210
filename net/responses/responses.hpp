// The Responses API. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// POST /v1/responses. Returns as write_reply does.
asio::awaitable<bool> handle_response(service& s, connection& c, const http_request& request);

/// POST /v1/responses/input_tokens: how many tokens the prompt has.
asio::awaitable<bool> handle_response_input_tokens(service& s, connection& c, const http_request& request);

}  // namespace orcd::net
