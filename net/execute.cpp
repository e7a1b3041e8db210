// POST /execute: one job, answered with its events. Source: M0-W-1300..1312.

#include <utility>

#include "net/prepare.hpp"
#include "net/run_jobs.hpp"
#include "net/session.hpp"
#include "net/tasks.hpp"

namespace orcd::net {
namespace {

job_batch make_batch(const service& s, prepared_job prepared) {
  job_batch batch;
  auto config = execution_config_of(s, prepared.job, prepared.deadline_is_final);
  config.metrics = prepared.metrics;
  batch.id = prepared.job.job_id;
  batch.runs.emplace_back(std::move(config), engine::token_stream(s.context.tokenizer, prepared.stop));
  batch.jobs.push_back(std::move(prepared.job));
  batch.prompt_chars = prepared.prompt_chars;
  batch.prompt_digest = std::move(prepared.prompt_digest);
  batch.deadline_left = prepared.deadline_left;
  return batch;
}

}  // namespace

asio::awaitable<bool> handle_execute(service& s, connection& c, const http_request& request) {
  if (const auto open = check_open(s); !open) co_return co_await refuse_jobs(s, c, request, open.error());
  if (const auto served = check_task(s.context.identity, task::generate); !served) {
    co_return co_await refuse_jobs(s, c, request, served.error());
  }
  auto prepared =
      prepare_job(request, s.context.tokenizer, s.config.execute, std::chrono::system_clock::now());
  if (!prepared) co_return co_await refuse_jobs(s, c, request, prepared.error());
  job_batch batch = make_batch(s, std::move(*prepared));
  co_return co_await run_jobs(s, c, request, std::move(batch));
}

}  // namespace orcd::net
