// POST /api/embed and the older POST /api/embeddings: their bodies and their answers. Pure. Source: ollama's
// API documentation. Private to net/.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/pooled/pooled_answer.hpp"
#include "net/pooled/pooled_request.hpp"

namespace orcd::net {

/// `input` is a text or a list of them; what does not fit the context is cut off unless `truncate` is false.
/// Errors: as parse_embedding, in ollama's names of fields.
[[nodiscard]] engine::result<embedding_request> parse_ollama_embed(std::string_view body,
                                                                   const pooled_limits& limits);
/// The same with one text, `prompt`.
[[nodiscard]] engine::result<embedding_request> parse_ollama_embeddings(std::string_view body,
                                                                        const pooled_limits& limits);

/// Whether a body is right but for its text, which is missing or empty: it asks only for the model.
[[nodiscard]] bool embeds_nothing(std::string_view body, const pooled_limits& limits,
                                  std::string_view text_field);

/// {"model","embeddings":[[...]],"total_duration",...}, each of length 1.
[[nodiscard]] std::string write_ollama_embed(const embedding_options& options, const pooled_outcome& outcome);
/// {"embedding":[...]}, as the model gives it.
[[nodiscard]] std::string write_ollama_embeddings(const embedding_options& options,
                                                  const pooled_outcome& outcome);

}  // namespace orcd::net
