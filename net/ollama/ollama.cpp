#include "net/ollama/ollama.hpp"

#include <optional>
#include <string>
#include <utility>

#include "net/completion/serve_completion.hpp"
#include "net/http/sse.hpp"
#include "net/jobs/reading_plan.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/run_jobs.hpp"
#include "net/jobs/write.hpp"
#include "net/json/json_text.hpp"
#include "net/ollama/model_facts.hpp"
#include "net/ollama/ollama_answer.hpp"
#include "net/ollama/ollama_embedding.hpp"
#include "net/ollama/ollama_fields.hpp"
#include "net/ollama/ollama_request.hpp"
#include "net/pooled/pooled.hpp"

namespace orcd::net {
namespace {

using engine::error;
using engine::result;

/// A prompt of /api/generate goes through the template as a message.
error in_words_of_generate(error refusal) {
  return in_words_of_ollama(rename_field(std::move(refusal), "messages", "prompt"));
}

ollama_identity identity_of(const service& s, const prepared_completion& prepared, ollama_use use,
                            std::chrono::system_clock::time_point now) {
  return {use,
          prepared.id,
          answered_model(s, prepared.asked),
          to_rfc3339(now),
          prepared.reader.format.calls,
          prepared.asked.logprobs};
}

template <ollama_use Use>
written_answer write_answer(const service& s, const prepared_completion& prepared,
                            std::chrono::system_clock::time_point now) {
  auto identity = identity_of(s, prepared, Use, now);
  const auto& vocabulary = s.context.tokenizer;
  written_answer out;
  out.plan.streams = prepared.asked.stream;
  std::unique_ptr<message_writer> writer;
  if (out.plan.streams) {
    writer = make_line_writer(std::move(identity), vocabulary);
  } else {
    const auto message = std::make_shared<whole_message>();
    writer = make_ollama_collector(identity, *message);
    out.plan.body = [identity = std::move(identity), message, &vocabulary] {
      return render_ollama(identity, *message, vocabulary);
    };
    out.plan.body_in_background = has_many_logprobs(prepared);
  }
  out.outputs.push_back(make_message_output(std::move(writer), vocabulary, prepared.reader));
  return out;
}

completion_api api_of(ollama_use use) {
  if (use == ollama_use::chat) {
    return {{endpoint::ollama_chat, "chat-", "messages", parse_ollama_chat, maximum_context_length,
             in_words_of_ollama},
            write_answer<ollama_use::chat>};
  }
  return {{endpoint::ollama_generate, "gen-", "prompt", parse_ollama_generate, maximum_context_length,
           in_words_of_generate},
          write_answer<ollama_use::generate>};
}

/// What asks for the model alone has a short body: a longer one without messages is refused.
result<std::optional<std::string>> read_load(const service& s, const http_request& request, ollama_use use) {
  std::optional<std::string> none;
  if (request.body.size() > read_at_once_bytes_max) return none;
  return asks_to_load(use, request.body, completion_context_of(s).limits);
}

asio::awaitable<bool> handle_text(service& s, connection& c, const http_request& request, ollama_use use) {
  const auto load = read_load(s, request, use);
  if (!load) co_return co_await refuse_jobs(s, c, request, load.error());
  if (*load) {
    if (const auto open = check_open(s, c); !open) {
      co_return co_await refuse_jobs(s, c, request, open.error());
    }
    const ollama_identity identity{use, {}, **load, to_rfc3339(request.received_wall)};
    reply loaded = make_json_reply(200, render_loaded(identity));
    co_return co_await write_reply(s, c, request, std::move(loaded));
  }
  const completion_api api = api_of(use);
  co_return co_await serve_completion(s, c, request, api);
}

/// The answer to a request without text.
std::string render_no_embedding(const service& s, bool older) {
  if (older) return R"({"embedding":[]})";
  std::string body;
  json_object json(body);
  json.text("model", s.context.identity.model_name).raw("embeddings", "[]");
  json.close();
  return body;
}

asio::awaitable<bool> handle_embed(service& s, connection& c, const http_request& request, endpoint target) {
  const bool older = target == endpoint::ollama_embeddings;
  const auto& identity = s.context.identity;
  if (identity.pooling == engine::pooling_kind::none) {
    const error refusal{engine::errc::invalid_request,
                        "this worker gives an embedding for each token (--pooling none): ask /v1/embeddings",
                        "model"};
    co_return co_await refuse_jobs(s, c, request, refusal);
  }
  const auto limits = pooled_context_of(s).limits;
  const bool silent = request.body.size() <= read_at_once_bytes_max &&
                      embeds_nothing(request.body, limits, older ? "prompt" : "input");
  if (silent && check_open(s, c) && check_model_task(identity, model_task::embed)) {
    reply nothing = make_json_reply(200, render_no_embedding(s, older));
    co_return co_await write_reply(s, c, request, std::move(nothing));
  }
  const embedding_api api = older ? embedding_api{target, parse_ollama_embeddings, write_ollama_embeddings}
                                  : embedding_api{target, parse_ollama_embed, write_ollama_embed};
  co_return co_await handle_embeddings(s, c, request, api);
}

asio::awaitable<bool> handle_show(service& s, connection& c, const http_request& request) {
  result<std::string> name;
  if (is_read_at_once(endpoint::ollama_show, request.body.size())) {
    name = parse_show(request.body);
  } else {
    std::function<result<std::string>()> read = [body = request.body] { return parse_show(body); };
    background_plan plan = plan_reading(endpoint::ollama_show, request);
    name =
        co_await run_in_background<std::string>(s, c, request.owner.tenant, std::move(plan), std::move(read));
  }
  reply shown = name ? answer_ollama_show(s, *name) : make_error_reply(name.error());
  co_return co_await write_reply(s, c, request, std::move(shown));
}

}  // namespace

asio::awaitable<bool> handle_ollama(service& s, connection& c, const http_request& request, endpoint target) {
  reply told;
  switch (target) {
    case endpoint::ollama_chat: co_return co_await handle_text(s, c, request, ollama_use::chat);
    case endpoint::ollama_generate: co_return co_await handle_text(s, c, request, ollama_use::generate);
    case endpoint::ollama_embed:
    case endpoint::ollama_embeddings: co_return co_await handle_embed(s, c, request, target);
    case endpoint::ollama_show: co_return co_await handle_show(s, c, request);
    case endpoint::ollama_tags: told = answer_ollama_tags(s); break;
    case endpoint::ollama_ps: told = answer_ollama_ps(s); break;
    default: told = answer_ollama_version(); break;
  }
  co_return co_await write_reply(s, c, request, std::move(told));
}

}  // namespace orcd::net
