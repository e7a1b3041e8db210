// The endpoints that generate in the form of the OpenAI API. io thread only. Private to net/.
#pragma once

#include "net/completion/completion_request.hpp"
#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// POST /v1/chat/completions and /v1/completions. Returns as write_reply does.
asio::awaitable<bool> handle_completion(service& s, connection& c, const http_request& request,
                                        completion_kind kind);

/// POST /v1/chat/completions/input_tokens, llama-server's: how many tokens the prompt has.
asio::awaitable<bool> handle_chat_input_tokens(service& s, connection& c, const http_request& request);

}  // namespace orcd::net
