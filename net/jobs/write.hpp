// Writes to a client within write_timeout. io thread only. Private to net/.
#pragma once

#include <string>

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// False when the client did not take the bytes in time.
asio::awaitable<bool> write_bytes(service& s, connection& c, std::string bytes);

/// Writes a one-shot response; returns whether the connection can serve another request.
asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response);

}  // namespace orcd::net
