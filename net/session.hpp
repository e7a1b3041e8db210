// One connection: requests in, responses out, until one side closes. Private to net/.
#pragma once

#include <memory>
#include <string>

#include "net/asio.hpp"
#include "net/completion_request.hpp"
#include "net/http_request.hpp"
#include "net/service.hpp"
#include "net/tasks.hpp"

namespace orcd::net {

/// Serves the connection to its end; every wait in it is bounded by connection_limits.
asio::awaitable<void> run_session(std::shared_ptr<service> s, tcp::socket socket);

/// Writes bytes within the write timeout; false when the client did not take them.
asio::awaitable<bool> write_bytes(service& s, connection& c, std::string bytes);

/// Writes a one-shot response; returns whether the connection can serve another request.
asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response);

/// POST /execute: the whole life of one job (execute.cpp). Returns as write_reply does.
asio::awaitable<bool> handle_execute(service& s, connection& c, const http_request& request);

/// POST /v1/chat/completions and /v1/completions (completions.cpp). Returns as write_reply does.
asio::awaitable<bool> handle_completion(service& s, connection& c, const http_request& request,
                                        completion_kind kind);

/// POST /v1/embeddings and /v1/rerank (pooled.cpp). Returns as write_reply does.
asio::awaitable<bool> handle_pooled(service& s, connection& c, const http_request& request, task wanted);

}  // namespace orcd::net
