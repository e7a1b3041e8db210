// The bodies of the endpoints that embed and rank, in the words of OpenAI, vLLM, llama-server, Cohere, Jina
// and TEI (text-embeddings-inference). Pure. Private to net/.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "net/completion/completion_request.hpp"
#include "net/pooled/pooled_limits.hpp"

namespace orcd::net {

using embedding_input = std::variant<std::string, std::vector<engine::token_id>>;

/// Whose words a request is in, and its answer.
enum class embedding_form {
  openai,
  llama,    ///< POST /embedding
  tei,      ///< POST /embed
  pooling,  ///< POST /pooling of vLLM, also of a model that ranks
};
enum class ranking_form {
  jina,   ///< Jina's, Cohere's and vLLM's rerank
  tei,    ///< as jina, with `texts` for `documents`
  score,  ///< POST /score of vLLM
};

struct embedding_request {
  std::vector<embedding_input> inputs;  ///< none is empty
  bool base64 = false;                  ///< the numbers as little-endian f32
  std::optional<std::uint32_t> dimensions;
  std::optional<std::chrono::milliseconds> timeout;
  embedding_form form = embedding_form::openai;
  input_cut cut{};
  bool add_special = true;                   ///< of texts: BOS, EOS and the like as the model's rules say
  bool normalised = true;                    ///< scaled to length 1
  bool activated = true;                     ///< of a model that ranks: probabilities, not its own numbers
  std::optional<completion_request> chat{};  ///< whose prompt is the only input
};

struct rerank_request {
  std::string query;
  std::vector<std::string> documents;  ///< neither the query nor a document is empty
  std::size_t top_n = 0;               ///< 1 to the number of documents
  bool return_documents = false;
  bool raw_scores = false;  ///< the classifier's own numbers
  std::optional<std::chrono::milliseconds> timeout;
  ranking_form form = ranking_form::jina;
  std::vector<std::string> queries{};              ///< one for each document, instead of `query`
  input_cut cut{};                                 ///< of pairs; documents alone are cut
  std::optional<std::uint32_t> document_tokens{};  ///< the most that are used of a document

  [[nodiscard]] const std::string& query_of(std::size_t document) const {
    return queries.empty() ? query : queries[document];
  }
};

/// Errors: invalid_request with the field as param, not_found for another model's name. A field that is null
/// counts as absent.
[[nodiscard]] engine::result<embedding_request> parse_embedding(std::string_view body,
                                                                const pooled_limits& limits,
                                                                embedding_form form);
/// In OpenAI's words.
[[nodiscard]] engine::result<embedding_request> parse_embedding(std::string_view body,
                                                                const pooled_limits& limits);
/// The same of fields that are read already, for APIs that have other names for them.
[[nodiscard]] engine::result<embedding_request> read_embedding(const boost::json::object& fields,
                                                               const pooled_limits& limits);
/// Also of `texts`, which make the form TEI's.
[[nodiscard]] engine::result<rerank_request> parse_rerank(std::string_view body, const pooled_limits& limits);
/// Two texts or lists of them, of which the first may have one for all of the second.
[[nodiscard]] engine::result<rerank_request> parse_score(std::string_view body, const pooled_limits& limits);

}  // namespace orcd::net
