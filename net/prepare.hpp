// From an /execute request to a job that may be submitted: everything that can be refused before the
// stream starts. No socket. Private to net/.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/http_request.hpp"
#include "net/parse_execute.hpp"

namespace orcd::net {

struct prepared_job {
  engine::job_request job;
  std::vector<std::string> stop;
  bool metrics = false;
  std::size_t prompt_chars = 0;  ///< code points; for the log, with the digest
  std::string prompt_digest;
  std::optional<std::chrono::milliseconds> deadline_left;  ///< of X-Deadline, when given
  bool deadline_is_final = false;                          ///< what limits the job's time is X-Deadline
};

/// The session that the header KRONK_IMC_ID names; empty without one. Error: invalid_request.
[[nodiscard]] engine::result<std::string> read_session(const http_request& request);

/// Parses, tokenizes, fits to the context and sets the job's time limit: the earliest of the inference
/// timeout, timeout_ms and X-Deadline (the last only when enforced). The session is imc_id's, or else the
/// header KRONK_IMC_ID's. Errors: invalid_request, context_length_exceeded, inference_timeout for a deadline
/// that has passed.
[[nodiscard]] engine::result<prepared_job> prepare_job(const http_request& request,
                                                       const engine::tokenizer& tokenizer,
                                                       const execute_limits& limits,
                                                       std::chrono::system_clock::time_point wall);

}  // namespace orcd::net
