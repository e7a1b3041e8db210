// POST /v1/embeddings and POST /v1/rerank: one job whose inputs are pooled, answered when all are. And which
// requests a model answers at all. Source: issue 5, features.md (d).
#include <utility>

#include "net/errand.hpp"
#include "net/pooled_answer.hpp"
#include "net/prepare_pooled.hpp"
#include "net/run_jobs.hpp"
#include "net/session.hpp"
#include "net/tasks.hpp"

namespace orcd::net {
namespace {

using engine::pooling_kind;
using std::chrono::steady_clock;

/// A longer body of texts is made tokens on another thread: a mebibyte takes some 30 ms.
constexpr std::size_t texts_at_once_max = 32 * 1024;
/// More numbers are written on another thread: some 45 ns each.
constexpr std::size_t numbers_at_once_max = 16 * 1024;
/// For what waits its turn there.
constexpr std::chrono::seconds prepare_patience{30};

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
  batch.form.whole_beside = work.numbers > numbers_at_once_max;
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

/// What `prepare` makes of the request; on another thread where its body is longer than that.
template <class Prepared>
asio::awaitable<engine::result<Prepared>> prepare_beside(
    service& s, connection& c, const http_request& request, std::size_t at_once_max,
    engine::result<Prepared> (*prepare)(const http_request&, const pooled_context&,
                                        std::chrono::system_clock::time_point)) {
  const auto now = std::chrono::system_clock::now();
  const auto context = pooled_context_of(s);
  if (request.body.size() <= at_once_max) co_return prepare(request, context, now);
  const auto work = errand<Prepared>::start(
      s.context.run_aside, c.stream.get_executor(),
      [prepare, request, context, now] { return prepare(request, context, now); },
      "the request could not be prepared");
  if (!co_await work->done_by(steady_clock::now() + prepare_patience)) {
    co_return engine::error(
        engine::errc::inference_timeout,
        "the request was not made tokens within " + std::to_string(prepare_patience.count()) + " s");
  }
  co_return std::move(work->made());
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
  if (wanted == task::embed) {
    auto prepared = co_await prepare_beside(s, c, request, texts_at_once_max, &prepare_embedding);
    if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
    job_batch batch = make_embedding_batch(s, std::move(*prepared));
    co_return co_await run_jobs(s, c, request, std::move(batch));
  }
  // A short body may be many texts: the query is in every pair.
  auto prepared = co_await prepare_beside(s, c, request, 0, &prepare_rerank);
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_rerank_batch(s, std::move(*prepared));
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
