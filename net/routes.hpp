// Which handler serves a request: one table of paths and methods. Pure. Source: M0-W-1300..1350.
#pragma once

#include <string_view>
#include <variant>

#include "net/respond.hpp"

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
  embeddings,
  rerank,
  models,
  model,
  tokenize,
  detokenize,
  page
};

/// Whether it asks for an API key where there are any: all but what probes and scrapers read,
/// and the page, which asks for one itself.
[[nodiscard]] bool needs_key(endpoint target) noexcept;

/// The endpoint, or the response that refuses the request (404, 405 with Allow) or answers OPTIONS (204).
/// HEAD is served wherever GET is. `target` may be in absolute form and may have a query. Without `page`
/// there is nothing at "/".
[[nodiscard]] std::variant<endpoint, reply> find_route(std::string_view method, std::string_view target,
                                                       bool page = true);

/// The model's name in the target of endpoint::model.
[[nodiscard]] std::string_view model_of(std::string_view target) noexcept;

/// What stands after '?' in a target, or nothing.
[[nodiscard]] std::string_view query_of(std::string_view target) noexcept;

}  // namespace orcd::net
