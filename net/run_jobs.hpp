// From jobs that were prepared to an answer that was written: a place in admission, the way through the
// scheduler, the events back. io thread only. Source: M0-W-1300..1312, M0-W-1611, WORK-3040, 3050..3053,
// design 2 (max-queue). Private to net/.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "net/asio.hpp"
#include "net/http_request.hpp"
#include "net/job_group.hpp"
#include "net/service.hpp"

namespace orcd::net {

/// The jobs of one request.
struct job_batch {
  std::string id;                         ///< what /cancel names
  std::vector<engine::job_request> jobs;  ///< distinct ids
  std::vector<execution> runs;            ///< of each job
  answer_form form;
  std::size_t prompt_chars = 0;  ///< code points; for the log, with the digest
  std::string prompt_digest;
  std::optional<std::chrono::milliseconds> deadline_left;  ///< of X-Deadline, when given
};

/// Whether the worker takes jobs at all; says why not.
[[nodiscard]] engine::result<void> check_open(const service& s);

/// What a job's execution needs to know of it.
[[nodiscard]] execution_config execution_config_of(const service& s, const engine::job_request& job,
                                                   bool deadline_is_final);

/// Answers with a refusal and counts it.
asio::awaitable<bool> refuse_jobs(service& s, connection& c, const http_request& request,
                                  const engine::error& failure);

/// The whole life of the jobs. Returns whether the connection can serve another request.
asio::awaitable<bool> run_jobs(service& s, connection& c, const http_request& request, job_batch batch);

}  // namespace orcd::net
