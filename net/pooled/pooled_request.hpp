// The bodies of POST /v1/embeddings and POST /v1/rerank. Pure. Private to net/.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "engine/worker_state.hpp"
#include "net/limits.hpp"

namespace orcd::net {

/// The most inputs or documents of one request.
constexpr std::size_t pooled_inputs_max = 2'048;
/// The most bytes of text that one request has tokenized; a query counts once for each document.
constexpr std::size_t pooled_text_bytes_max = 4U << 20U;
/// The most numbers in one answer.
constexpr std::size_t pooled_values_max = 4U << 20U;

using embedding_input = std::variant<std::string, std::vector<engine::token_id>>;

struct embedding_request {
  std::vector<embedding_input> inputs;  ///< none is empty
  bool base64 = false;                  ///< the numbers as little-endian f32
  std::optional<std::uint32_t> dimensions;
  std::optional<std::chrono::milliseconds> timeout;
};

struct rerank_request {
  std::string query;
  std::vector<std::string> documents;  ///< neither the query nor a document is empty
  std::size_t top_n = 0;               ///< 1 to the number of documents
  bool return_documents = false;
  bool raw_scores = false;  ///< the classifier's own numbers
  std::optional<std::chrono::milliseconds> timeout;
};

struct pooled_limits {
  const request_limits& lengths;
  const engine::worker_identity& served;  ///< see model_names.hpp
  std::uint32_t vocab = 0;                ///< token ids are below
  std::uint32_t dimensions = 0;           ///< of an embedding
  bool shorter_dimensions = false;        ///< fewer may be asked for
};

/// Errors: invalid_request with the field as param, not_found for another model's name. A field that is null
/// counts as absent.
[[nodiscard]] engine::result<embedding_request> parse_embedding(std::string_view body,
                                                                const pooled_limits& limits);
[[nodiscard]] engine::result<rerank_request> parse_rerank(std::string_view body, const pooled_limits& limits);

}  // namespace orcd::net
