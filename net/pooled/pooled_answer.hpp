// The answer of an embedding or rerank request: one object when its job has ended. The forms are those of
// OpenAI's embeddings and of Jina's and Cohere's rerank. Pure. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/jobs/job_output.hpp"
#include "net/pooled/pooled_request.hpp"

namespace orcd::net {

/// The results of a job that has run to its end.
struct pooled_outcome {
  std::vector<engine::pooled_values> values;  ///< one for each input
  std::uint32_t tokens_in = 0;
};

/// The output of a pooled job: writes nothing and fills `outcome`, from which the body is made.
[[nodiscard]] std::unique_ptr<job_output> make_pooled_output(std::shared_ptr<pooled_outcome> outcome);

/// How embeddings are written. With `token_width` an input has an embedding of that width for each token, not
/// normalised; otherwise one, cut to `dimensions` if that is not 0 and scaled to length 1.
struct embedding_options {
  std::string model;
  bool base64 = false;
  std::uint32_t dimensions = 0;
  std::uint32_t token_width = 0;
};
[[nodiscard]] std::string write_embeddings(const embedding_options& options, const pooled_outcome& outcome);

struct ranking_options {
  std::string model;
  std::uint32_t relevant_class = 0;  ///< of a classifier's two outputs, the one that means relevant
  rerank_request asked;
};
/// The documents by relevance, best first; equal ones in the order of the request.
[[nodiscard]] std::string write_ranking(const ranking_options& options, const pooled_outcome& outcome);

/// 1 / (1 + e^-x), the same bits on every CPU.
[[nodiscard]] double logistic(float x) noexcept;

}  // namespace orcd::net
