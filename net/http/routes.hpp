// Which handler serves a request: one table of paths and methods. Pure. Source: M0-W-1300..1350.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "net/http/respond.hpp"

namespace orcd::net {

enum class endpoint {
  execute,
  cancel,
  health,
  live,
  ready,
  metrics,
  shutdown,
  chat_completions,
  completions,
  responses,
  stored_response,
  stored_input,
  chat_input_tokens,
  response_input_tokens,
  embeddings,
  llama_embedding,
  tei_embed,
  pooling,
  rerank,
  score,
  models,
  model,
  tokenize,
  detokenize,
  messages,
  count_tokens,
  apply_template,
  llama_completion,
  infill,
  props,
  slots,
  lora_adapters,
  load_adapter,
  unload_adapter,
  tokenizer_info,
  ollama_version,
  ollama_tags,
  ollama_ps,
  ollama_show,
  ollama_chat,
  ollama_generate,
  ollama_embed,
  ollama_embeddings,
  version,
  load,
  page
};

/// Whether it needs an API key where there are any: every endpoint except those of probes and scrapers, and
/// the page, which asks the user for a key.
[[nodiscard]] bool needs_key(endpoint target) noexcept;

/// Whether it is one of the endpoints that tell how the worker does: they are served on reserved connections
/// too.
[[nodiscard]] bool is_probe(endpoint target) noexcept;

/// Paths that a worker may be without.
struct optional_paths {
  bool page = true;    ///< "/"
  bool ollama = true;  ///< ollama's API, below /api
};

/// The endpoint, or the response that refuses the request (404, 405 with Allow) or answers OPTIONS (204).
/// HEAD is served wherever GET is. `target` may be in absolute form and may have a query. Slashes at the end
/// and repeated ones do not count, and paths under /v1 are served without it and with it twice, as clients
/// make them whose base URL ends elsewhere.
[[nodiscard]] std::variant<endpoint, reply> find_route(std::string_view method, std::string_view target,
                                                       optional_paths paths = {});

/// Whether it is one of ollama's API.
[[nodiscard]] bool is_ollama(endpoint target) noexcept;

/// The path by which an endpoint is known, "{id}" in it where a name stands.
[[nodiscard]] std::string_view pattern_of(endpoint target) noexcept;

/// The text with its percent escapes replaced; as it is where one of them is none.
[[nodiscard]] std::string percent_decoded(std::string_view text);

/// The API that a target belongs to, whether there is such a path or not.
[[nodiscard]] api_words words_of(std::string_view target);

/// The name in a target that has one, as those of endpoint::model and endpoint::stored_input; percent escapes
/// are decoded.
[[nodiscard]] std::string name_of(std::string_view target);

/// What stands after '?' in a target, or nothing.
[[nodiscard]] std::string_view query_of(std::string_view target) noexcept;

/// The first value of this name in a target's query, decoded; nothing where it has none.
[[nodiscard]] std::optional<std::string> query_value(std::string_view target, std::string_view name);

}  // namespace orcd::net
