// POST /execute. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// POST /execute: the whole life of one job. Returns as write_reply does.
asio::awaitable<bool> handle_execute(service& s, connection& c, const http_request& request);

}  // namespace orcd::net
