// POST /v1/embeddings and POST /v1/rerank: one job whose inputs are pooled, answered when all are. And which
// requests a model answers at all. Source: issue 5, features.md (d).
#include <utility>

#include "net/pooled_answer.hpp"
#include "net/prepare_pooled.hpp"
#include "net/run_jobs.hpp"
#include "net/session.hpp"
#include "net/tasks.hpp"

namespace orcd::net {
namespace {

using engine::pooling_kind;

pooled_context pooled_context_of(const service& s) {
  const auto& identity = s.context.identity;
  pooled_limits limits{s.config.execute, identity.model_name};
  limits.vocab = s.context.tokenizer.vocab_size();
  limits.dimensions = identity.embedding_length;
  limits.shorter_dimensions = s.config.matryoshka;
  return {limits, s.context.tokenizer, s.context.pairs, identity.pooling.value_or(pooling_kind::none)};
}

job_batch make_batch(const service& s, prepared_pooled work, std::shared_ptr<pooled_outcome> outcome,
                     std::function<std::string()> whole) {
  auto config = execution_config_of(s, work.job, work.deadline_is_final);
  // Nothing can be said before the end of an answer that is no stream.
  config.keep_alive = std::chrono::hours(24);
  job_batch batch;
  batch.id = work.job.job_id;
  batch.runs.emplace_back(std::move(config), engine::token_stream(s.context.tokenizer, {}),
                          make_pooled_output(std::move(outcome)));
  batch.form.streams = false;
  batch.form.whole = std::move(whole);
  batch.jobs.push_back(std::move(work.job));
  batch.prompt_chars = work.prompt_chars;
  batch.prompt_digest = std::move(work.prompt_digest);
  batch.deadline_left = work.deadline_left;
  return batch;
}

job_batch make_embedding_batch(const service& s, prepared_embedding prepared) {
  const auto& identity = s.context.identity;
  const auto outcome = std::make_shared<pooled_outcome>();
  embedding_form form{identity.model_name, prepared.asked.base64, prepared.asked.dimensions.value_or(0)};
  if (identity.pooling == pooling_kind::none) form.token_width = identity.embedding_length;
  return make_batch(s, std::move(prepared.work), outcome,
                    [form = std::move(form), outcome] { return write_embeddings(form, *outcome); });
}

job_batch make_rerank_batch(const service& s, prepared_rerank prepared) {
  const auto outcome = std::make_shared<pooled_outcome>();
  rerank_form form{s.context.identity.model_name, s.context.identity.relevant_class,
                   std::move(prepared.asked)};
  return make_batch(s, std::move(prepared.work), outcome,
                    [form = std::move(form), outcome] { return write_ranking(form, *outcome); });
}

}  // namespace

engine::result<void> check_task(const engine::worker_identity& identity, task wanted) {
  if (task_of(identity) == wanted) return {};
  const auto refuse = [&](const std::string& what) {
    return engine::error(engine::errc::invalid_request, "'" + identity.model_name + "' " + what, "model");
  };
  switch (task_of(identity)) {
    case task::embed:
      return refuse("is served for embeddings (pooling " + std::string(to_string(*identity.pooling)) +
                    "): ask /v1/embeddings");
    case task::rank: return refuse("is served for ranking (pooling rank): ask /v1/rerank");
    case task::generate: break;
  }
  return refuse(std::string("generates text: its file names no pooling; --pooling ") +
                (wanted == task::rank ? "rank" : "mean, cls or last") + " serves such a model for " +
                (wanted == task::rank ? "ranking" : "embeddings"));
}

asio::awaitable<bool> handle_pooled(service& s, connection& c, const http_request& request, task wanted) {
  if (const auto open = check_open(s); !open) co_return co_await refuse_jobs(s, c, request, open.error());
  if (const auto served = check_task(s.context.identity, wanted); !served) {
    co_return co_await refuse_jobs(s, c, request, served.error());
  }
  const auto now = std::chrono::system_clock::now();
  const auto context = pooled_context_of(s);
  if (wanted == task::embed) {
    auto prepared = prepare_embedding(request, context, now);
    if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
    job_batch batch = make_embedding_batch(s, std::move(*prepared));
    co_return co_await run_jobs(s, c, request, std::move(batch));
  }
  auto prepared = prepare_rerank(request, context, now);
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_rerank_batch(s, std::move(*prepared));
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
