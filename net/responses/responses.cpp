#include "net/responses/responses.hpp"

#include <utility>

#include "net/completion/serve_completion.hpp"
#include "net/responses/response_answer.hpp"
#include "net/responses/response_request.hpp"

namespace orcd::net {
namespace {

std::int64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

/// Keeps a response for later requests of the same key.
void keep_response(const response_answer& answer) {
  const auto& notes = *answer.identity().notes;
  if (!notes.shelf) return;
  auto [before, after] = answer.body_frame();
  kept_turn own{notes.input, answer.output()};
  notes.shelf->store->keep(notes.shelf->owner, answer.identity().id, std::move(own),
                           {notes.earlier, std::move(before), std::move(after)});
}

written_answer write_response(const service& s, const prepared_completion& prepared,
                              std::chrono::system_clock::time_point now) {
  response_identity identity;
  identity.id = prepared.id;
  identity.created = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  identity.model = answered_model(s, prepared.asked);
  identity.echo = prepared.asked.echo;
  identity.notes = std::static_pointer_cast<const response_notes>(prepared.asked.notes);
  identity.calls = prepared.reader.format.calls;
  identity.now = seconds_now;
  identity.over = keep_response;
  identity.stream = prepared.asked.stream;
  identity.prompt_tokens = prepared.jobs.front().tokens_in();
  if (identity.notes->timings) identity.clock = std::chrono::steady_clock::now;
  const auto answer = std::make_shared<response_answer>(std::move(identity), s.context.tokenizer);
  written_answer out;
  out.outputs.push_back(
      make_message_output(make_response_writer(answer), s.context.tokenizer, prepared.reader));
  out.plan.streams = prepared.asked.stream;
  out.plan.body = [answer] { return answer->body(); };
  out.plan.body_in_background = has_many_logprobs(prepared);
  return out;
}

}  // namespace

asio::awaitable<bool> handle_response_input_tokens(service& s, connection& c, const http_request& request) {
  request_form form{endpoint::response_input_tokens, "resp_", "input", nullptr};
  form.parse = [](std::string_view body, const completion_limits& limits) {
    return counted(parse_response(body, limits));
  };
  form.words = in_words_of_responses;
  co_return co_await serve_input_tokens(s, c, request, form);
}

asio::awaitable<bool> handle_response(service& s, connection& c, const http_request& request) {
  completion_api api{{endpoint::responses, "resp_", "input", parse_response}, write_response};
  api.form.words = in_words_of_responses;
  co_return co_await serve_completion(s, c, request, api);
}

}  // namespace orcd::net
