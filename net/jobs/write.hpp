// Writes to a client within write_timeout. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <string>

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// False when the client did not take the bytes in time. `flags`: journal_flags that hold with these bytes.
asio::awaitable<bool> write_bytes(service& s, connection& c, std::string bytes, std::uint32_t flags = 0);

/// What a dead engine had given out and the socket had not taken; it is in the journal already.
asio::awaitable<bool> write_recovered(service& s, connection& c);

/// Writes a one-shot response; returns whether the connection can serve another request.
asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response);

}  // namespace orcd::net
