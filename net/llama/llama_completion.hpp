// POST /completion and /infill: llama-server's own form of a completion. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// `target` is endpoint::llama_completion or endpoint::infill. Returns as write_reply does.
asio::awaitable<bool> handle_llama_completion(service& s, connection& c, const http_request& request,
                                              endpoint target);

}  // namespace orcd::net
