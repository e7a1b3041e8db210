// What an embedding or rerank request is answered with: one object when its job has ended. Pure. io thread
// only. Source: features.md (d): OpenAI's embeddings, Jina's and Cohere's rerank. Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/job_output.hpp"
#include "net/pooled_request.hpp"

namespace orcd::net {

/// What a job has left when it has run to its end.
struct pooled_outcome {
  std::vector<engine::pooled_values> values;  ///< of each input
  std::uint32_t tokens_in = 0;
};

/// The output of a pooled job: writes nothing and fills `outcome`.
[[nodiscard]] std::unique_ptr<job_output> make_pooled_output(std::shared_ptr<pooled_outcome> outcome);

/// How embeddings are written. With `token_width` an input has an embedding for each token, as they are; else
/// it has one, cut to `dimensions` if that is not 0 and of length 1.
struct embedding_form {
  std::string model;
  bool base64 = false;
  std::uint32_t dimensions = 0;
  std::uint32_t token_width = 0;
};
[[nodiscard]] std::string write_embeddings(const embedding_form& form, const pooled_outcome& outcome);

struct rerank_form {
  std::string model;
  std::uint32_t relevant_class = 0;  ///< of two
  rerank_request asked;
};
/// Best first; among equals in the order of the documents.
[[nodiscard]] std::string write_ranking(const rerank_form& form, const pooled_outcome& outcome);

/// 1 / (1 + e^-x), the same bits on every CPU.
[[nodiscard]] double logistic(float x) noexcept;

}  // namespace orcd::net
