// The endpoints of Anthropic's Messages API. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// POST /v1/messages. Returns as write_reply does.
asio::awaitable<bool> handle_messages(service& s, connection& c, const http_request& request);

/// POST /v1/messages/count_tokens. Returns as write_reply does.
asio::awaitable<bool> handle_count_tokens(service& s, connection& c, const http_request& request);

}  // namespace orcd::net
