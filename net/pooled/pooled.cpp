// The endpoints that embed and rank: one job whose inputs are pooled, answered when all are.
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

template <embedding_form Form>
engine::result<embedding_request> parse_form(std::string_view body, const pooled_limits& limits) {
  return parse_embedding(body, limits, Form);
}

embedding_parser& parser_of(endpoint target) noexcept {
  switch (target) {
    case endpoint::llama_embedding: return parse_form<embedding_form::llama>;
    case endpoint::tei_embed: return parse_form<embedding_form::tei>;
    case endpoint::pooling: return parse_form<embedding_form::pooling>;
    default: return parse_embedding;
  }
}

/// A chat is rendered by a template, which may take long whatever its length. A name that is written with
/// escapes is missed, and costs the others that time at most.
bool may_be_a_chat(std::string_view body) {
  return body.find("\"messages\"") != std::string_view::npos;
}

answer_origin origin_of(const prepared_pooled& work, const http_request& request) {
  using std::chrono::duration_cast;
  const auto since = request.received_wall.time_since_epoch();
  return {work.job.job_id, duration_cast<std::chrono::seconds>(since).count()};
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

job_batch make_embedding_batch(const service& s, prepared_embedding prepared, const http_request& request,
                               const embedding_api& api) {
  const auto& identity = s.context.identity;
  const auto outcome = std::make_shared<pooled_outcome>();
  embedding_options options{identity.model_name, prepared.asked.base64,
                            prepared.asked.dimensions.value_or(0)};
  if (identity.pooling == pooling_kind::none) options.token_width = identity.embedding_length;
  const bool ranks = identity.pooling == pooling_kind::rank;
  options.normalised = prepared.asked.normalised && !ranks;
  options.activated = prepared.asked.activated && ranks;
  options.form = prepared.asked.form;
  options.origin = origin_of(prepared.work, request);
  return make_batch(
      s, std::move(prepared.work), outcome,
      [options = std::move(options), outcome, write = api.write] { return write(options, *outcome); });
}

job_batch make_rerank_batch(const service& s, prepared_rerank prepared, const http_request& request) {
  const auto outcome = std::make_shared<pooled_outcome>();
  ranking_options options{s.context.identity.model_name, s.context.identity.relevant_class,
                          std::move(prepared.asked), origin_of(prepared.work, request)};
  options.compares = s.context.pairs == nullptr;
  return make_batch(s, std::move(prepared.work), outcome,
                    [options = std::move(options), outcome] { return write_ranking(options, *outcome); });
}

/// Calls `prepare`; on a background thread where that may take long.
template <class Prepared>
asio::awaitable<engine::result<Prepared>> prepare_request(
    service& s, connection& c, const http_request& request, endpoint target,
    std::function<engine::result<Prepared>(const http_request&, const pooled_context&)> prepare) {
  const auto context = pooled_context_of(s);
  const bool quick = is_read_at_once(target, request.body.size()) && !may_be_a_chat(request.body);
  if (quick) co_return prepare(request, context);
  std::function<engine::result<Prepared>()> work = [prepare, request, context] {
    return prepare(request, context);
  };
  background_plan plan = plan_reading(target, request);
  co_return co_await run_in_background<Prepared>(s, c, request.owner.tenant, std::move(plan),
                                                 std::move(work));
}

/// Refuses what this worker does not serve now, or never does. Texts are ranked by their embeddings, too, and
/// what a model that ranks says of single texts is asked at /pooling.
engine::result<void> check_served(const service& s, const connection& c, endpoint target) {
  if (auto open = check_open(s, c); !open) return open;
  const auto& identity = s.context.identity;
  const model_task wanted = pooled_task_of(target) == model_task::rank ? model_task::rank : model_task::embed;
  const model_task served = model_task_of(identity);
  if (target == endpoint::pooling && served == model_task::rank) return {};
  if (wanted == model_task::rank && served == model_task::embed && identity.pooling != pooling_kind::none) {
    return {};
  }
  return check_model_task(identity, wanted);
}

}  // namespace

model_task pooled_task_of(endpoint target) noexcept {
  switch (target) {
    case endpoint::embeddings:
    case endpoint::llama_embedding:
    case endpoint::tei_embed:
    case endpoint::pooling: return model_task::embed;
    case endpoint::rerank:
    case endpoint::score: return model_task::rank;
    default: return model_task::generate;
  }
}

pooled_context pooled_context_of(const service& s) {
  const auto& identity = s.context.identity;
  pooled_limits limits{s.config.model, identity};
  limits.vocab = s.context.tokenizer.vocab_size();
  limits.dimensions = identity.embedding_length;
  limits.shorter_dimensions = s.config.matryoshka;
  limits.request_template = s.config.request_template;
  return {limits, s.context.tokenizer, s.context.pairs, identity.pooling.value_or(pooling_kind::none),
          s.context.chat};
}

asio::awaitable<bool> handle_embeddings(service& s, connection& c, const http_request& request,
                                        embedding_api api) {
  const auto served = check_served(s, c, api.target);
  if (!served) co_return co_await refuse_jobs(s, c, request, served.error());
  const auto now = request.received_wall;
  std::function<engine::result<prepared_embedding>(const http_request&, const pooled_context&)> prepare =
      [now, parse = &api.parse](const http_request& asked, const pooled_context& context) {
        return prepare_embedding(asked, context, now, *parse);
      };
  auto prepared = co_await prepare_request<prepared_embedding>(s, c, request, api.target, std::move(prepare));
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_embedding_batch(s, std::move(*prepared), request, api);
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

asio::awaitable<bool> handle_pooled(service& s, connection& c, const http_request& request, endpoint target) {
  const model_task wanted = pooled_task_of(target);
  if (wanted == model_task::embed) {
    const embedding_api api{target, parser_of(target)};
    co_return co_await handle_embeddings(s, c, request, api);
  }
  const auto served = check_served(s, c, target);
  if (!served) co_return co_await refuse_jobs(s, c, request, served.error());
  const auto now = request.received_wall;
  std::function<engine::result<prepared_rerank>(const http_request&, const pooled_context&)> prepare =
      [now, score = target == endpoint::score](const http_request& asked, const pooled_context& context) {
        return prepare_rerank(asked, context, now, score);
      };
  auto prepared = co_await prepare_request<prepared_rerank>(s, c, request, target, std::move(prepare));
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_rerank_batch(s, std::move(*prepared), request);
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
