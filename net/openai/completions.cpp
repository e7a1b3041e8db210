// POST /v1/chat/completions and /v1/completions: one job for each choice, answered together.

#include "net/openai/completions.hpp"

#include <utility>

#include "net/completion/serve_completion.hpp"
#include "net/openai/completion_answer.hpp"

namespace orcd::net {
namespace {

completion_identity identity_of(const service& s, const prepared_completion& prepared,
                                std::chrono::system_clock::time_point now) {
  completion_identity out;
  out.kind = prepared.asked.kind;
  out.id = prepared.id;
  out.created = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  out.model = answered_model(s, prepared.asked);
  out.system_fingerprint =
      prepared.fingerprint.empty() ? s.context.identity.system_fingerprint : prepared.fingerprint;
  out.stream = prepared.asked.stream;
  out.include_usage = prepared.asked.include_usage;
  out.null_usage = s.config.null_usage;
  out.usage_in_chunks = prepared.asked.usage_in_chunks;
  out.predicted = prepared.asked.prediction.has_value();
  out.prompt_tokens.clear();
  for (std::size_t i = 0; i < prepared.jobs.size(); i += prepared.asked.choices) {
    out.prompt_tokens.push_back(prepared.jobs[i].tokens_in());
    for (const engine::job_medium& medium : prepared.jobs[i].media)
      if (medium.content->sound() != nullptr) out.audio_tokens += medium.rows;
  }
  out.logprobs = prepared.asked.logprobs;
  if (prepared.asked.prompt_logprobs) out.vocabulary = &s.context.tokenizer;
  out.choices = prepared.asked.choices;
  out.shows = prepared.asked.shows;
  if (out.shows.timings) out.now = std::chrono::steady_clock::now;
  return out;
}

written_answer write_choices(const service& s, const prepared_completion& prepared,
                             std::chrono::system_clock::time_point now) {
  const auto answer = std::make_shared<completion_answer>(identity_of(s, prepared, now));
  written_answer out;
  for (std::uint32_t i = 0; i < prepared.jobs.size(); ++i) {
    auto& choice = answer->at(i);
    choice.prompt_tokens = prepared.jobs[i].tokens_in();
    if (prepared.asked.shows.token_ids) choice.prompt_ids = prepared.jobs[i].prompt;
    auto echo = prepared.echoes.at(i / prepared.asked.choices);
    out.outputs.push_back(
        make_choice_output(answer, i, s.context.tokenizer, prepared.reader, std::move(echo)));
  }
  out.plan.streams = prepared.asked.stream;
  out.plan.closing = [answer] { return answer->closing(); };
  out.plan.body = [answer] { return answer->body(); };
  out.plan.body_in_background = has_many_logprobs(prepared);
  return out;
}

}  // namespace

asio::awaitable<bool> handle_chat_input_tokens(service& s, connection& c, const http_request& request) {
  request_form form = form_of(completion_kind::chat);
  form.target = endpoint::chat_input_tokens;
  form.parse = [](std::string_view body, const completion_limits& limits) {
    return counted(parse_completion(body, completion_kind::chat, limits));
  };
  co_return co_await serve_input_tokens(s, c, request, form);
}

asio::awaitable<bool> handle_completion(service& s, connection& c, const http_request& request,
                                        completion_kind kind) {
  const completion_api api{form_of(kind), write_choices};
  co_return co_await serve_completion(s, c, request, api);
}

}  // namespace orcd::net
