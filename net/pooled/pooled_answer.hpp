// The answer of an embedding or rerank request: one object when its job has ended. The forms are those of
// OpenAI's embeddings and of Jina's and Cohere's rerank. Pure. io thread only. Private to net/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
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
  engine::job_stats stats{};
};

/// The output of a pooled job: writes nothing and fills `outcome`, from which the body is made.
[[nodiscard]] std::unique_ptr<job_output> make_pooled_output(std::shared_ptr<pooled_outcome> outcome);

/// What vLLM's answers say of themselves.
struct answer_origin {
  std::string id;
  std::int64_t created = 0;  ///< seconds since 1970
};

/// How embeddings are written. With `token_width` an input has an embedding of that width for each token, not
/// normalised; otherwise one, cut to `dimensions` if that is not 0 and with `normalised` scaled to length 1.
/// What a model that ranks gives is written as it is, or with `activated` as probabilities.
struct embedding_options {
  std::string model;
  bool base64 = false;
  std::uint32_t dimensions = 0;
  std::uint32_t token_width = 0;
  bool normalised = true;
  embedding_form form = embedding_form::openai;
  answer_origin origin{};
  bool activated = false;
};
[[nodiscard]] std::string write_embeddings(const embedding_options& options, const pooled_outcome& outcome);
/// The embedding of one input as JSON.
void append_embedding(std::string& out, const embedding_options& options, std::span<const float> values);
/// [0.5,-1]: the shortest texts that read back as the same numbers, which must be finite.
void append_numbers(std::string& out, std::span<const float> values);

struct ranking_options {
  std::string model;
  std::uint32_t relevant_class = 0;  ///< of a classifier's two outputs, the one that means relevant
  rerank_request asked;
  answer_origin origin{};
  /// The model embeds: the outcome has the embeddings of the queries and then of the documents, and a score
  /// is the cosine of two.
  bool compares = false;
};
/// The documents by relevance, best first; equal ones in the order of the request. Of a score all, in that
/// order.
[[nodiscard]] std::string write_ranking(const ranking_options& options, const pooled_outcome& outcome);

/// 1 / (1 + e^-x), the same bits on every CPU.
[[nodiscard]] double logistic(float x) noexcept;
/// Of a classifier's outputs: the logistic function of a single one, else their softmax, the same bits on
/// every CPU.
[[nodiscard]] std::vector<float> class_probabilities(std::span<const float> outputs);

}  // namespace orcd::net
