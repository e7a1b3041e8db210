#include "net/completion/serve_completion.hpp"

#include <atomic>
#include <memory>
#include <utility>

#include "engine/sampling/token_rules.hpp"
#include "net/completion/find_grammar.hpp"
#include "net/jobs/model_task.hpp"
#include "net/jobs/reading_plan.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/run_jobs.hpp"
#include "net/jobs/write.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::result;

/// Whether a request may go on from an earlier response, which may be longer than its body. A name that is
/// written with escapes is missed, and costs a fair turn at most.
bool goes_on(std::string_view body) {
  return body.find("\"previous_response_id\"") != std::string_view::npos;
}

/// Becomes true when the coroutine that owns the object ends.
class end_mark {
 public:
  end_mark() = default;
  ~end_mark() { *ended_ = true; }
  end_mark(const end_mark&) = delete;
  end_mark& operator=(const end_mark&) = delete;

  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> ended() const noexcept { return ended_; }

 private:
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

completion_context completion_context_of(const service& s) {
  const auto& identity = s.context.identity;
  completion_limits limits{s.config.model, identity};
  limits.adapters = s.adapters();
  limits.vocab = s.context.tokenizer.vocab_size();
  limits.infill = s.context.tokenizer.infill();
  limits.media = s.context.media;
  limits.request_template = s.config.request_template;
  limits.parse_special_in_chat = s.config.parse_special_in_chat;
  limits.strict_fields = s.config.strict_fields;
  limits.system_tokens_min = s.config.system_tokens_min;
  limits.template_defaults = &s.config.template_defaults;
  limits.reasoning_tokens_max = s.config.reasoning_tokens_max;
  return {limits, s.context.tokenizer, s.context.chat, s.context.tokens};
}

std::string answered_model(const service& s, const completion_request& asked) {
  return asked.model.empty() ? s.context.identity.model_name : asked.model;
}

namespace {

job_batch make_batch(const service& s, prepared_completion prepared, written_answer answer) {
  job_batch batch;
  const auto& shows = prepared.asked.shows;
  for (std::size_t i = 0; i < prepared.jobs.size(); ++i) {
    auto config = job_execution_config_of(s, prepared.jobs[i], prepared.facts);
    config.model = answered_model(s, prepared.asked);
    // No keep-alive: an answer that is no stream can say nothing before its end.
    if (!answer.plan.streams) config.keep_alive = std::chrono::hours(24);
    // message_reader looks for stop strings itself, in the content alone.
    auto stop = prepared.reader.separates() ? std::vector<std::string>() : prepared.asked.stop;
    batch.executions.emplace_back(
        std::move(config),
        engine::token_stream(s.context.tokenizer, std::move(stop), shows.special_tokens, shows.stop_string),
        std::move(answer.outputs.at(i)));
  }
  batch.id = std::move(prepared.id);
  batch.jobs = std::move(prepared.jobs);
  batch.answer = std::move(answer.plan);
  batch.facts = std::move(prepared.facts);
  return batch;
}

/// A refusal as the API says it.
engine::error own_words(const completion_api& api, const engine::error& refusal) {
  return api.form.words == nullptr ? refusal : api.form.words(refusal);
}

/// Adds what the request says of single tokens to what its jobs may choose.
void constrain_tokens(prepared_completion& prepared, const engine::tokenizer& vocabulary) {
  const auto& asked = prepared.asked;
  const auto ends = vocabulary.end_of_generation();
  engine::token_rules rules{asked.min_tokens, asked.stop_tokens, asked.allowed_tokens, asked.banned_tokens,
                            asked.banned_rows};
  if (!rules.bind()) return;
  rules.ends.insert(rules.ends.end(), ends.begin(), ends.end());
  for (auto& job : prepared.jobs) {
    job.constraint = engine::make_token_rules(rules, vocabulary.vocab_size(), std::move(job.constraint));
  }
}

/// On top of everything else that limits the jobs' tokens: what a grammar or a rule forbids is not forced.
void limit_reasoning(prepared_completion& prepared, const engine::tokenizer& vocabulary) {
  if (!prepared.budget) return;
  for (auto& job : prepared.jobs) {
    if (auto limited = engine::make_reasoning_budget(*prepared.budget, vocabulary, job.constraint)) {
      job.constraint = std::move(limited);
    }
  }
}

}  // namespace

bool has_many_logprobs(const prepared_completion& prepared) {
  constexpr std::uint64_t at_once_max = 4'096;  // they take some 100 ns each
  const std::uint64_t of_output = prepared.asked.logprobs ? 1 + prepared.asked.top_logprobs : 0;
  std::uint64_t values = 0;
  for (const auto& job : prepared.jobs) {
    values += job.events_max() * of_output;
    if (job.score_ranks) values += job.prompt.size() * (1 + job.score_top);
  }
  return values > at_once_max;
}

// Only this function decides where a request is prepared.
asio::awaitable<result<prepared_completion>> prepare_request(service& s, connection& c,
                                                             const http_request& request, request_form form,
                                                             std::chrono::system_clock::time_point now) {
  if (const auto open = check_open(s, c); !open) co_return open.error();
  if (const auto served = check_model_task(s.context.identity, model_task::generate); !served) {
    co_return served.error();
  }
  auto context = completion_context_of(s);
  const bool responses = form.target == endpoint::responses || form.target == endpoint::response_input_tokens;
  if (s.responses && responses) {
    context.limits.shelf = response_shelf{s.responses, request.owner};
  }
  if (is_read_at_once(form.target, request.body.size())) {
    auto quick = prepare_quickly(request, form, context, now);
    if (!quick) co_return quick.error();
    if (*quick) co_return std::move(**quick);
  }
  const end_mark here;
  context.unwanted = here.ended();
  std::function<result<prepared_completion>()> prepare = [request, form, context, now] {
    return prepare_completion(request, form, context, now);
  };
  background_plan plan = plan_reading(form.target, request);
  if (context.limits.shelf && goes_on(request.body)) plan.length = task_length::lengthy;
  if (context.limits.media != nullptr && may_have_media(request.body)) plan.length = task_length::lengthy;
  co_return co_await run_in_background<prepared_completion>(s, c, request.owner.tenant, std::move(plan),
                                                            std::move(prepare));
}

asio::awaitable<bool> serve_input_tokens(service& s, connection& c, const http_request& request,
                                         request_form form) {
  const auto now = request.received_wall;
  const auto prepared = co_await prepare_request(s, c, request, form, now);
  reply answer;
  if (prepared) {
    std::string body;
    json_object json(body);
    json.text("object", "response.input_tokens")
        .integer("input_tokens", prepared->jobs.front().prompt.size());
    json.close();
    answer = make_json_reply(200, std::move(body));
  } else {
    answer = make_error_reply(form.words == nullptr ? prepared.error() : form.words(prepared.error()));
  }
  co_return co_await write_reply(s, c, request, std::move(answer));
}

asio::awaitable<bool> serve_completion(service& s, connection& c, const http_request& request,
                                       completion_api api) {
  const auto now = request.received_wall;
  http_request answered = request;
  auto prepared = co_await prepare_request(s, c, request, api.form, now);
  if (!prepared) {
    const auto refusal = own_words(api, prepared.error());
    co_return co_await refuse_jobs(s, c, request, refusal);
  }
  if (prepared->grammar) {
    auto source = std::move(*prepared->grammar);
    auto key = std::move(prepared->grammar_key);
    const auto grammar = co_await find_grammar(s, c, request, std::move(key), std::move(source));
    if (!grammar) {
      const auto refusal = own_words(api, grammar.error());
      co_return co_await refuse_jobs(s, c, request, refusal);
    }
    answered.schema_ignored = ignored_header(**grammar);
    for (auto& job : prepared->jobs) {
      job.constraint = engine::grammar::make_matcher(*grammar, s.context.tokens);
    }
  }
  answered.generic_tools = prepared->reader.format.calls == engine::call_format::generic;
  append_left(answered.schema_ignored, prepared->asked.left_out);
  constrain_tokens(*prepared, s.context.tokenizer);
  limit_reasoning(*prepared, s.context.tokenizer);
  prepared->fingerprint = request.fingerprint;
  c.note.model = prepared->asked.model;
  written_answer answer = api.answer(s, *prepared, now);
  job_batch batch = make_batch(s, std::move(*prepared), std::move(answer));
  co_return co_await run_jobs(s, c, answered, std::move(batch));
}

}  // namespace orcd::net
