// POST /execute: one job, answered with its events. Source: M0-W-1300..1312.

#include "net/execute/execute.hpp"

#include <utility>

#include "net/execute/execute_output.hpp"
#include "net/execute/prepare.hpp"
#include "net/jobs/model_task.hpp"
#include "net/jobs/reading_plan.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/run_jobs.hpp"

namespace orcd::net {
namespace {

job_batch make_batch(const service& s, prepared_job prepared) {
  job_batch batch;
  auto config = job_execution_config_of(s, prepared.job, prepared.facts);
  if (prepared.last_event_id) config.resume = resume_point::after_event(*prepared.last_event_id);
  batch.id = prepared.job.job_id;
  auto output = make_execute_output(config, prepared.metrics);
  batch.executions.emplace_back(std::move(config), engine::token_stream(s.context.tokenizer, prepared.stop),
                                std::move(output));
  batch.jobs.push_back(std::move(prepared.job));
  batch.facts = std::move(prepared.facts);
  return batch;
}

asio::awaitable<engine::result<prepared_job>> prepare_request(service& s, connection& c,
                                                              const http_request& request) {
  const auto now = request.received_wall;
  std::function<engine::result<prepared_job>()> prepare =
      [request, &vocabulary = s.context.tokenizer, limits = s.config.execute, now, adapters = s.adapters()] {
        return prepare_job(request, vocabulary, limits, now, adapters);
      };
  if (is_read_at_once(endpoint::execute, request.body.size())) co_return prepare();
  background_plan plan = plan_reading(endpoint::execute, request);
  co_return co_await run_in_background<prepared_job>(s, c, request.owner.tenant, std::move(plan),
                                                     std::move(prepare));
}

}  // namespace

asio::awaitable<bool> handle_execute(service& s, connection& c, const http_request& request) {
  if (const auto open = check_open(s, c); !open) co_return co_await refuse_jobs(s, c, request, open.error());
  if (const auto served = check_model_task(s.context.identity, model_task::generate); !served) {
    co_return co_await refuse_jobs(s, c, request, served.error());
  }
  auto prepared = co_await prepare_request(s, c, request);
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_batch(s, std::move(*prepared));
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
