// From prepared jobs to a written answer: places in admission, the way through the scheduler, the events
// back. io thread only. Source: M0-W-1300..1312, M0-W-1611, WORK-3040, 3050..3053. Private to net/.
#pragma once

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/job_batch.hpp"
#include "net/jobs/request_facts.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// Whether the worker takes jobs at all. Errors: draining, not_ready.
[[nodiscard]] engine::result<void> check_open(const service& s, const connection& c);

/// The configuration of one job's execution.
[[nodiscard]] job_execution_config job_execution_config_of(const service& s, const engine::job_request& job,
                                                           const request_facts& facts);

/// Answers with a refusal, and counts and logs it.
asio::awaitable<bool> refuse_jobs(service& s, connection& c, const http_request& request,
                                  const engine::error& failure);

/// Runs the jobs and writes their answer. Returns whether the connection can serve another request.
asio::awaitable<bool> run_jobs(service& s, connection& c, const http_request& request, job_batch batch);

}  // namespace orcd::net
