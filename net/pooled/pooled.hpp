// The endpoints of models that embed or rank. io thread only. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/model_task.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// POST /v1/embeddings and /v1/rerank. Returns as write_reply does.
asio::awaitable<bool> handle_pooled(service& s, connection& c, const http_request& request,
                                    model_task wanted);

}  // namespace orcd::net
