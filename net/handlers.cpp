#include "net/handlers.hpp"

#include <utility>

#include "engine/narration.hpp"
#include "net/json_text.hpp"
#include "net/models.hpp"
#include "net/page.hpp"
#include "net/parse_cancel.hpp"
#include "net/token_endpoints.hpp"

namespace orcd::net {
namespace {

// 202 for any well-formed id, known or not: a repeated cancel gets the same answer, and nobody learns
// from it which ids exist (M0-W-1330, reliability 3.1).
reply answer_cancel(service& s, const http_request& request) {
  const auto job_id = parse_cancel(request.body);
  if (!job_id) return make_error_reply(job_id.error());
  s.context.narrator.narrate(
      engine::severity::info, "cancel", "A client asked to cancel a job.",
      {{"job_id", *job_id}, {"known", s.streams.contains(*job_id)}, {"request_id", request.request_id}});
  s.cancel(*job_id, engine::cancel_reason::client_cancel);
  std::string body;
  json_object json(body);
  json.text("job_id", *job_id).text("status", "accepted");
  json.close();
  return make_json_reply(202, std::move(body));
}

reply answer_shutdown(service& s, const http_request& request) {
  if (const auto ok = parse_shutdown(request.body); !ok) return make_error_reply(ok.error());
  if (s.context.request_shutdown) s.context.request_shutdown();
  reply accepted = make_json_reply(202, "{\"status\":\"draining\"}");
  accepted.close = true;
  return accepted;
}

reply answer_metrics(service& s, const http_request& request) {
  metrics_extras extras;
  extras.milliseconds = query_of(request.target) == "units=ms";
  extras.vllm = s.config.compat == metrics_compat::vllm;
  reply scrape = make_json_reply(200, render_metrics(s.metrics, s.snapshot(), extras));
  scrape.content_type = "text/plain; version=0.0.4; charset=utf-8";
  return scrape;
}

}  // namespace

reply answer(service& s, endpoint target, const http_request& request) {
  switch (target) {
    case endpoint::cancel: return answer_cancel(s, request);
    case endpoint::health: return make_health_reply(s.facts(), s.context.identity);
    case endpoint::live: return make_live_reply(s.facts());
    case endpoint::ready: return make_ready_reply(s.facts());
    case endpoint::metrics: return answer_metrics(s, request);
    case endpoint::shutdown: return answer_shutdown(s, request);
    case endpoint::models: return answer_models(s.context.identity, s.created());
    case endpoint::model: return answer_model(s.context.identity, s.created(), model_of(request.target));
    case endpoint::tokenize:
      return answer_tokenize(request.body, s.context.tokenizer, s.config.execute.prompt_chars_max);
    case endpoint::detokenize: return answer_detokenize(request.body, s.context.tokenizer);
    case endpoint::page: return make_page_reply(request.if_none_match);
    case endpoint::execute:
    case endpoint::chat_completions:
    case endpoint::completions:
    case endpoint::embeddings:
    case endpoint::rerank: break;
  }
  return make_error_reply(engine::error(engine::errc::internal, "no handler"));
}

}  // namespace orcd::net
