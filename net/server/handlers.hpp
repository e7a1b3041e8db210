// The endpoints that run no job. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// Answers a request to any endpoint that runs no job; reads long bodies and writes long answers on a
/// background thread. Returns whether the connection can serve another request.
asio::awaitable<bool> handle_plain(service& s, connection& c, const http_request& request, endpoint target);

}  // namespace orcd::net
