// From an embedding or rerank request to a job that may be submitted: everything that can be refused before
// the work starts. No socket. Private to net/.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "engine/schedule/job.hpp"
#include "engine/served/pair_format.hpp"
#include "net/completion/prepare_completion.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/request_facts.hpp"
#include "net/pooled/pooled_request.hpp"

namespace orcd::net {

struct pooled_context {
  pooled_limits limits;
  const engine::tokenizer& tokenizer;
  const engine::pair_format* pairs = nullptr;  ///< of a model that ranks
  engine::pooling_kind pooling = engine::pooling_kind::none;
  const engine::chat_format* chat = nullptr;  ///< null: the model has no chat template
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

/// Reads the body of a request for embeddings.
using embedding_parser = engine::result<embedding_request>(std::string_view body,
                                                           const pooled_limits& limits);

/// Errors: as `parse`; context_length_exceeded naming the input; inference_timeout for a deadline that has
/// passed; the chat template's own.
[[nodiscard]] engine::result<prepared_embedding> prepare_embedding(const http_request& request,
                                                                   const pooled_context& context,
                                                                   std::chrono::system_clock::time_point wall,
                                                                   embedding_parser& parse = parse_embedding);
/// The same of parse_rerank, or with `score` of parse_score. Where the model does not rank (there are no
/// context.pairs) the job embeds the queries, or the one that there is, and then the documents.
[[nodiscard]] engine::result<prepared_rerank> prepare_rerank(const http_request& request,
                                                             const pooled_context& context,
                                                             std::chrono::system_clock::time_point wall,
                                                             bool score = false);

}  // namespace orcd::net
