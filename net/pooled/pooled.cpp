// POST /v1/embeddings and POST /v1/rerank: one job whose inputs are pooled, answered when all are.
#include "net/pooled/pooled.hpp"

#include <utility>

#include "net/jobs/model_task.hpp"
#include "net/jobs/reading_plan.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/run_jobs.hpp"
#include "net/pooled/pooled_answer.hpp"
#include "net/pooled/prepare_pooled.hpp"

namespace orcd::net {
namespace {

using engine::pooling_kind;

/// Answers with more numbers than this are made on a background thread: they take some 45 ns each.
constexpr std::size_t numbers_at_once_max = 16 * 1024;

pooled_context pooled_context_of(const service& s) {
  const auto& identity = s.context.identity;
  pooled_limits limits{s.config.model, identity};
  limits.vocab = s.context.tokenizer.vocab_size();
  limits.dimensions = identity.embedding_length;
  limits.shorter_dimensions = s.config.matryoshka;
  return {limits, s.context.tokenizer, s.context.pairs, identity.pooling.value_or(pooling_kind::none)};
}

job_batch make_batch(const service& s, prepared_pooled work, std::shared_ptr<pooled_outcome> outcome,
                     std::function<std::string()> body) {
  auto config = job_execution_config_of(s, work.job, work.facts);
  // No keep-alive: an answer that is no stream can say nothing before its end.
  config.keep_alive = std::chrono::hours(24);
  job_batch batch;
  batch.id = work.job.job_id;
  batch.executions.emplace_back(std::move(config), engine::token_stream(s.context.tokenizer, {}),
                                make_pooled_output(std::move(outcome)));
  batch.answer.streams = false;
  batch.answer.body = std::move(body);
  batch.answer.body_in_background = work.numbers > numbers_at_once_max;
  batch.jobs.push_back(std::move(work.job));
  batch.facts = std::move(work.facts);
  return batch;
}

job_batch make_embedding_batch(const service& s, prepared_embedding prepared) {
  const auto& identity = s.context.identity;
  const auto outcome = std::make_shared<pooled_outcome>();
  embedding_options options{identity.model_name, prepared.asked.base64,
                            prepared.asked.dimensions.value_or(0)};
  if (identity.pooling == pooling_kind::none) options.token_width = identity.embedding_length;
  return make_batch(s, std::move(prepared.work), outcome,
                    [options = std::move(options), outcome] { return write_embeddings(options, *outcome); });
}

job_batch make_rerank_batch(const service& s, prepared_rerank prepared) {
  const auto outcome = std::make_shared<pooled_outcome>();
  ranking_options options{s.context.identity.model_name, s.context.identity.relevant_class,
                          std::move(prepared.asked)};
  return make_batch(s, std::move(prepared.work), outcome,
                    [options = std::move(options), outcome] { return write_ranking(options, *outcome); });
}

/// Calls `prepare`; on a background thread where the body is long.
template <class Prepared>
asio::awaitable<engine::result<Prepared>> prepare_request(
    service& s, connection& c, const http_request& request, endpoint target,
    engine::result<Prepared> (*prepare)(const http_request&, const pooled_context&,
                                        std::chrono::system_clock::time_point)) {
  const auto now = request.received_wall;
  const auto context = pooled_context_of(s);
  if (is_read_at_once(target, request.body.size())) co_return prepare(request, context, now);
  std::function<engine::result<Prepared>()> work = [prepare, request, context, now] {
    return prepare(request, context, now);
  };
  background_plan plan = plan_reading(target, request);
  co_return co_await run_in_background<Prepared>(s, c, request.owner.tenant, std::move(plan),
                                                 std::move(work));
}

}  // namespace

asio::awaitable<bool> handle_pooled(service& s, connection& c, const http_request& request,
                                    model_task wanted) {
  if (const auto open = check_open(s, c); !open) co_return co_await refuse_jobs(s, c, request, open.error());
  if (const auto served = check_model_task(s.context.identity, wanted); !served) {
    co_return co_await refuse_jobs(s, c, request, served.error());
  }
  if (wanted == model_task::embed) {
    auto prepared = co_await prepare_request(s, c, request, endpoint::embeddings, &prepare_embedding);
    if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
    job_batch batch = make_embedding_batch(s, std::move(*prepared));
    co_return co_await run_jobs(s, c, request, std::move(batch));
  }
  auto prepared = co_await prepare_request(s, c, request, endpoint::rerank, &prepare_rerank);
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_rerank_batch(s, std::move(*prepared));
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
