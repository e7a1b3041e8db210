#include "net/server/handlers.hpp"

#include <utility>

#include "engine/base/narration.hpp"
#include "net/completion/serve_completion.hpp"
#include "net/execute/parse_cancel.hpp"
#include "net/http/page.hpp"
#include "net/jobs/background_reply.hpp"
#include "net/jobs/reading_plan.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/write.hpp"
#include "net/json/json_text.hpp"
#include "net/llama/props.hpp"
#include "net/llama/token_endpoints.hpp"
#include "net/openai/models.hpp"

namespace orcd::net {
namespace {

using engine::result;

// 202 for any well-formed id, known or not: a repeated cancel gets the same answer, and nobody learns from it
// which ids exist (M0-W-1330). With API keys only the key of a job can cancel it.
reply answer_cancel(service& s, const http_request& request, const result<std::string>& job_id) {
  if (!job_id) return make_error_reply(job_id.error());
  const auto id = scoped_job_id(request.owner, *job_id);
  s.context.narrator.narrate(engine::severity::info, "cancel", "A client asked to cancel a job.",
                             {{"job_id", *job_id},
                              {"known", s.streams.contains(id)},
                              {"request_id", request.request_id},
                              {"key_name", request.owner.label}});
  s.cancel(id, engine::cancel_reason::client_cancel);
  std::string body;
  json_object json(body);
  json.text("job_id", *job_id).text("status", "accepted");
  json.close();
  return make_json_reply(202, std::move(body));
}

reply answer_shutdown(service& s, const result<std::string>& body) {
  if (!body) return make_error_reply(body.error());
  if (s.context.request_shutdown) s.context.request_shutdown();
  reply accepted = make_json_reply(202, "{\"status\":\"draining\"}");
  accepted.close = true;
  return accepted;
}

reply answer_metrics(service& s, const http_request& request) {
  std::string text = s.scrape(query_of(request.target) == "units=ms");
  if (s.context.more_metrics) text += s.context.more_metrics();
  reply scrape = make_json_reply(200, std::move(text));
  scrape.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return scrape;
}

/// The job_id of a cancel; empty for a shutdown, whose body must be empty.
result<std::string> read_control(endpoint target, std::string_view body) {
  if (target == endpoint::cancel) return parse_cancel(body);
  if (const auto read = parse_shutdown(body); !read) return read.error();
  return std::string();
}

asio::awaitable<reply> answer_control(service& s, connection& c, const http_request& request,
                                      endpoint target) {
  std::function<result<std::string>()> read = [target, body = request.body] {
    return read_control(target, body);
  };
  result<std::string> said;
  if (is_read_at_once(target, request.body.size())) {
    said = read();
  } else {
    background_plan plan = plan_reading(target, request);
    said =
        co_await run_in_background<std::string>(s, c, request.owner.tenant, std::move(plan), std::move(read));
  }
  co_return target == endpoint::cancel ? answer_cancel(s, request, said) : answer_shutdown(s, said);
}

reply answer_tokens(const service& s, endpoint target, std::string_view body) {
  const auto context = completion_context_of(s);
  if (target == endpoint::tokenize) return answer_tokenize(body, context);
  if (target == endpoint::detokenize) return answer_detokenize(body, context);
  return answer_apply_template(body, context);
}

/// Nullopt where the answer has to be made on a background thread.
std::optional<reply> answer_tokens_at_once(const service& s, endpoint target, std::string_view body) {
  if (!is_read_at_once(target, body.size())) return std::nullopt;
  if (target == endpoint::tokenize) return answer_tokenize_quickly(body, completion_context_of(s));
  return answer_tokens(s, target, body);
}

asio::awaitable<bool> handle_tokens(service& s, connection& c, const http_request& request, endpoint target) {
  if (auto quick = answer_tokens_at_once(s, target, request.body)) {
    reply response = std::move(*quick);
    co_return co_await write_reply(s, c, request, std::move(response));
  }
  std::function<reply()> make = [&s, target, body = request.body] { return answer_tokens(s, target, body); };
  background_plan plan = plan_reading(target, request);
  co_return co_await write_from_background(s, c, request, std::move(plan), std::move(make));
}

/// The response of an endpoint that reads no body.
reply answer(service& s, endpoint target, const http_request& request) {
  switch (target) {
    case endpoint::health: return make_health_reply(s.facts(), s.context.identity);
    case endpoint::live: return make_live_reply(s.facts());
    case endpoint::ready: return make_ready_reply(s.facts());
    case endpoint::metrics: return answer_metrics(s, request);
    case endpoint::models: return answer_models(s.context.identity, s.created(), s.adapters());
    case endpoint::model:
      return answer_model(s.context.identity, s.created(), name_of(request.target), s.adapters());
    case endpoint::props: return answer_props(s);
    case endpoint::slots: return answer_slots(s, query_of(request.target));
    case endpoint::tokenizer_info: return answer_tokenizer_info(s);
    case endpoint::version: return answer_version(s);
    case endpoint::load: return answer_load(s);
    case endpoint::page: return make_page_reply(request.if_none_match);
    case endpoint::cancel:
    case endpoint::shutdown:
    case endpoint::tokenize:
    case endpoint::detokenize:
    case endpoint::apply_template:
    case endpoint::llama_completion:
    case endpoint::infill:
    case endpoint::lora_adapters:
    case endpoint::load_adapter:
    case endpoint::unload_adapter:
    case endpoint::execute:
    case endpoint::chat_completions:
    case endpoint::completions:
    case endpoint::responses:
    case endpoint::stored_response:
    case endpoint::stored_input:
    case endpoint::chat_input_tokens:
    case endpoint::response_input_tokens:
    case endpoint::embeddings:
    case endpoint::llama_embedding:
    case endpoint::tei_embed:
    case endpoint::pooling:
    case endpoint::rerank:
    case endpoint::score:
    case endpoint::messages:
    case endpoint::count_tokens:
    case endpoint::ollama_version:
    case endpoint::ollama_tags:
    case endpoint::ollama_ps:
    case endpoint::ollama_show:
    case endpoint::ollama_chat:
    case endpoint::ollama_generate:
    case endpoint::ollama_embed:
    case endpoint::ollama_embeddings: break;
  }
  return make_error_reply(engine::error(engine::errc::internal, "no handler"));
}

}  // namespace

asio::awaitable<bool> handle_plain(service& s, connection& c, const http_request& request, endpoint target) {
  if (target == endpoint::tokenize || target == endpoint::detokenize || target == endpoint::apply_template) {
    co_return co_await handle_tokens(s, c, request, target);
  }
  reply response;
  if (target == endpoint::cancel || target == endpoint::shutdown) {
    response = co_await answer_control(s, c, request, target);
  } else {
    response = answer(s, target, request);
  }
  co_return co_await write_reply(s, c, request, std::move(response));
}

}  // namespace orcd::net
