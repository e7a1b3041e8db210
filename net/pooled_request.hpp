// The bodies of POST /v1/embeddings and POST /v1/rerank. Pure. Source: issue 5, features.md (d). Private to
// net/.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/ids.hpp"
#include "net/server.hpp"

namespace orcd::net {

/// Inputs or documents of one request.
constexpr std::size_t pooled_inputs_max = 2'048;
/// Text of one request that is tokenized, every repetition counted.
constexpr std::size_t pooled_text_bytes_max = 4U << 20U;
/// Numbers in one answer.
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
  std::vector<std::string> documents;  ///< neither is empty
  std::size_t top_n = 0;               ///< 1 to the number of documents
  bool return_documents = false;
  bool raw_scores = false;  ///< the classifier's own numbers
  std::optional<std::chrono::milliseconds> timeout;
};

struct pooled_limits {
  const execute_limits& lengths;
  std::string_view model;           ///< the only one there is
  std::uint32_t vocab = 0;          ///< token ids are below
  std::uint32_t dimensions = 0;     ///< of an embedding
  bool shorter_dimensions = false;  ///< fewer may be asked for
};

/// Errors: invalid_request with the field as param, not_found for another model's name. A field that is null
/// counts as absent.
[[nodiscard]] engine::result<embedding_request> parse_embedding(std::string_view body,
                                                                const pooled_limits& limits);
[[nodiscard]] engine::result<rerank_request> parse_rerank(std::string_view body, const pooled_limits& limits);

}  // namespace orcd::net
