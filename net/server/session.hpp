// One connection: requests in, responses out, until one side closes. Private to net/.
#pragma once

#include <memory>

#include "net/http/asio.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// Serves the connection to its end; every wait in it is bounded by connection_limits.
asio::awaitable<void> run_session(std::shared_ptr<service> s, tcp::socket socket, connection_tier tier,
                                  journalled kept = {});

}  // namespace orcd::net
