// From an /execute request to a job that may be submitted: everything that can be refused before the
// stream starts. No socket. Private to net/.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/execute/parse_execute.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/request_facts.hpp"

namespace orcd::net {

struct prepared_job {
  engine::job_request job;
  std::vector<std::string> stop;
  bool metrics = false;
  std::optional<std::uint32_t> last_event_id;  ///< the client has the events up to this one
  request_facts facts;
};

/// Parses, tokenizes, fits to the context and sets the job's time limit: the earliest of the inference
/// timeout, timeout_ms and X-Deadline (the last only when enforced). The session is imc_id's, or else the
/// header KRONK_IMC_ID's. Errors: invalid_request, context_length_exceeded, inference_timeout for a deadline
/// that has passed. Last-Event-ID needs a seed, unless nothing is drawn: another one gives another output.
[[nodiscard]] engine::result<prepared_job> prepare_job(const http_request& request,
                                                       const engine::tokenizer& tokenizer,
                                                       const request_limits& limits,
                                                       std::chrono::system_clock::time_point wall,
                                                       const shared_adapters& adapters = {});

}  // namespace orcd::net
