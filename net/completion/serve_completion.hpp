// A request for completions from its body to its answer, whatever its API. io thread only. Private to net/.
#pragma once

#include "net/completion/completion_api.hpp"
#include "net/completion/prepare_completion.hpp"
#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// What requests are prepared with.
[[nodiscard]] completion_context completion_context_of(const service& s);

/// What the answer calls the model: the adapter that the request names, or its own name.
[[nodiscard]] std::string answered_model(const service& s, const completion_request& asked);

/// Checks that the worker takes such requests now and prepares this one: here if its body is short and its
/// template gives a prompt quickly, otherwise on a background thread. Errors: as prepare_completion and
/// run_in_background; draining and not_ready.
asio::awaitable<engine::result<prepared_completion>> prepare_request(
    service& s, connection& c, const http_request& request, request_form form,
    std::chrono::system_clock::time_point now);

/// Whether an answer that is no stream may have so many log probabilities that its body is to be made on a
/// background thread.
[[nodiscard]] bool has_many_logprobs(const prepared_completion& prepared);

/// Answers with the number of the prompt's tokens, in OpenAI's words; of the form's parse() nothing else is
/// asked. Returns as write_reply does.
asio::awaitable<bool> serve_input_tokens(service& s, connection& c, const http_request& request,
                                         request_form form);

/// Answers the request. Returns as write_reply does.
asio::awaitable<bool> serve_completion(service& s, connection& c, const http_request& request,
                                       completion_api api);

}  // namespace orcd::net
