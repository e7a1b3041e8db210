// Reads from a connection into its input buffer: first what a dead engine had received of the request, then
// the socket, and then by way of the journal where there is one. Private to net/.
#pragma once

#include <cstddef>

#include "net/http/connection.hpp"

namespace orcd::net {

struct input_read {
  error_code failed{};
  std::size_t bytes = 0;
};

/// Whether there are bytes that need no reading from the socket.
[[nodiscard]] bool has_replay(const connection& c) noexcept;

/// Up to `most` bytes, at least one where nothing failed; `c.input` has room for them. The stream's own time
/// limit, which closes, does not apply: it is for writes, beside which this may be called, too.
[[nodiscard]] asio::awaitable<input_read> read_input(connection& c, std::size_t most);

}  // namespace orcd::net
