// The endpoints of models that embed or rank. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/model_task.hpp"
#include "net/jobs/service.hpp"
#include "net/pooled/pooled_answer.hpp"
#include "net/pooled/prepare_pooled.hpp"

namespace orcd::net {

/// What such an endpoint wants of the model; generate: it is none of them.
[[nodiscard]] model_task pooled_task_of(endpoint target) noexcept;

/// `target` is one of these endpoints. Returns as write_reply does.
asio::awaitable<bool> handle_pooled(service& s, connection& c, const http_request& request, endpoint target);

/// How an API asks for embeddings and answers with them.
struct embedding_api {
  endpoint target = endpoint::embeddings;
  embedding_parser& parse;
  std::string (*write)(const embedding_options& options, const pooled_outcome& outcome) = write_embeddings;
};

/// What requests to pooled endpoints are prepared with.
[[nodiscard]] pooled_context pooled_context_of(const service& s);

/// Answers a request for embeddings in any API. Returns as write_reply does.
asio::awaitable<bool> handle_embeddings(service& s, connection& c, const http_request& request,
                                        embedding_api api);

}  // namespace orcd::net
