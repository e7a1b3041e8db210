// What an API of completions has to bring: how its requests are read and how its answers are written. The
// rest is the same for all of them: prepare_completion.hpp, serve_completion.hpp. Private to net/.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/completion/completion_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/job_checks.hpp"
#include "net/jobs/job_group.hpp"

namespace orcd::net {

class service;
struct prepared_completion;

/// How an API's requests are read.
struct request_form {
  endpoint target;
  std::string_view id_prefix;     ///< of an answer's id, for example "chatcmpl-"
  std::string_view prompt_field;  ///< what the prompt is made of, for messages
  /// Reads a body. Any thread. Errors: as parse_completion, in the API's own names of fields.
  engine::result<completion_request> (*parse)(std::string_view body, const completion_limits& limits);
  /// Refuses a prompt that does not fit.
  overflow_words* too_long = maximum_context_length;
  /// A refusal that came after parse(), with the API's own name for its field; null: as it is.
  engine::error (*words)(engine::error refusal) = nullptr;
};

/// How the jobs of one request are answered.
struct written_answer {
  std::vector<std::unique_ptr<job_output>> outputs;  ///< one for each job
  answer_plan plan;
};

struct completion_api {
  request_form form;
  written_answer (*answer)(const service& s, const prepared_completion& prepared,
                           std::chrono::system_clock::time_point now);
};

}  // namespace orcd::net
