// POST /v1/chat/completions and /v1/completions: one job for each choice, answered together.
// Source: issue 5, features.md (d).

#include <utility>

#include "net/completion_answer.hpp"
#include "net/find_grammar.hpp"
#include "net/prepare_completion.hpp"
#include "net/run_jobs.hpp"
#include "net/session.hpp"
#include "net/tasks.hpp"

namespace orcd::net {
namespace {

completion_identity identity_of(const service& s, const prepared_completion& prepared,
                                std::chrono::system_clock::time_point now) {
  completion_identity out;
  out.kind = prepared.asked.kind;
  out.id = prepared.id;
  out.created = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
  out.model = s.context.identity.model_name;
  out.system_fingerprint = s.context.identity.system_fingerprint;
  out.stream = prepared.asked.stream;
  out.include_usage = prepared.asked.include_usage;
  out.usage_in_chunks = prepared.asked.usage_in_chunks;
  out.prompt_tokens = static_cast<std::uint32_t>(prepared.jobs.front().prompt.size());
  out.logprobs = prepared.asked.logprobs;
  out.choices = prepared.asked.choices;
  return out;
}

job_batch make_batch(const service& s, prepared_completion prepared,
                     std::chrono::system_clock::time_point now) {
  const auto answer = std::make_shared<completion_answer>(identity_of(s, prepared, now));
  job_batch batch;
  for (std::uint32_t i = 0; i < prepared.jobs.size(); ++i) {
    auto config = execution_config_of(s, prepared.jobs[i], prepared.deadline_is_final);
    // Nothing can be said before the end of an answer that is no stream.
    if (!prepared.asked.stream) config.keep_alive = std::chrono::hours(24);
    // What parts the output looks for stop strings itself, in the content.
    auto stop = prepared.form.parts() ? std::vector<std::string>() : prepared.asked.stop;
    batch.runs.emplace_back(std::move(config), engine::token_stream(s.context.tokenizer, std::move(stop)),
                            make_choice_output(answer, i, s.context.tokenizer, prepared.form));
  }
  batch.id = std::move(prepared.id);
  batch.jobs = std::move(prepared.jobs);
  batch.form.streams = prepared.asked.stream;
  batch.form.closing = [answer] { return answer->closing(); };
  batch.form.whole = [answer] { return answer->whole(); };
  batch.prompt_chars = prepared.prompt_chars;
  batch.prompt_digest = std::move(prepared.prompt_digest);
  batch.deadline_left = prepared.deadline_left;
  return batch;
}

completion_context completion_context_of(const service& s) {
  const auto& identity = s.context.identity;
  completion_limits limits{s.config.execute, identity.model_name};
  limits.vocab = s.context.tokenizer.vocab_size();
  limits.choices_max = identity.slots;
  limits.request_template = s.config.request_template;
  limits.system_tokens_min = s.config.system_tokens_min;
  return {limits, s.context.tokenizer, s.context.chat, s.context.tokens};
}

}  // namespace

asio::awaitable<bool> handle_completion(service& s, connection& c, const http_request& request,
                                        completion_kind kind) {
  if (const auto open = check_open(s); !open) {
    co_return co_await refuse_jobs(s, c, request, open.error());
  }
  if (const auto served = check_task(s.context.identity, task::generate); !served) {
    co_return co_await refuse_jobs(s, c, request, served.error());
  }
  const auto now = std::chrono::system_clock::now();
  const auto context = completion_context_of(s);
  auto prepared = prepare_completion(request, kind, context, now);
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  if (prepared->grammar) {
    const auto grammar = co_await find_grammar(s, c, *prepared->grammar);
    if (!grammar) co_return co_await refuse_jobs(s, c, request, grammar.error());
    for (auto& job : prepared->jobs) {
      job.constraint = engine::grammar::make_matcher(*grammar, s.context.tokens);
    }
  }
  job_batch batch = make_batch(s, std::move(*prepared), now);
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
