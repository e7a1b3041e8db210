// From an embedding or rerank request to a job that may be submitted: everything that can be refused before
// the work starts. No socket. Private to net/.
#pragma once

#include <chrono>
#include <string>

#include "engine/pair_format.hpp"
#include "engine/schedule/job.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/request_facts.hpp"
#include "net/pooled/pooled_request.hpp"

namespace orcd::net {

struct pooled_context {
  pooled_limits limits;
  const engine::tokenizer& tokenizer;
  const engine::pair_format* pairs = nullptr;  ///< of a model that ranks
  engine::pooling_kind pooling = engine::pooling_kind::none;
};

struct prepared_pooled {
  engine::job_request job;
  std::size_t numbers = 0;  ///< numbers in the answer
  request_facts facts;
};

struct prepared_embedding {
  embedding_request asked;  ///< its inputs are in the job
  prepared_pooled work;
};
struct prepared_rerank {
  rerank_request asked;
  prepared_pooled work;
};

/// Errors: as parse_embedding and parse_rerank; context_length_exceeded naming the input; inference_timeout
/// for a deadline that has passed.
[[nodiscard]] engine::result<prepared_embedding> prepare_embedding(
    const http_request& request, const pooled_context& context, std::chrono::system_clock::time_point wall);
[[nodiscard]] engine::result<prepared_rerank> prepare_rerank(const http_request& request,
                                                             const pooled_context& context,
                                                             std::chrono::system_clock::time_point wall);

}  // namespace orcd::net
