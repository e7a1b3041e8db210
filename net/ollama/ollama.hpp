// ollama's API, below /api. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// `target` is one for which is_ollama() is true. Returns as write_reply does.
asio::awaitable<bool> handle_ollama(service& s, connection& c, const http_request& request, endpoint target);

}  // namespace orcd::net
