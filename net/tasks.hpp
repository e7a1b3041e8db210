// What the worker's model is served for: a model generates, embeds or ranks. Pure. Private to net/.
#pragma once

#include <string_view>

#include "engine/worker_state.hpp"

namespace orcd::net {

enum class task { generate, embed, rank };

[[nodiscard]] inline task task_of(const engine::worker_identity& identity) noexcept {
  if (!identity.pooling) return task::generate;
  return *identity.pooling == engine::pooling_kind::rank ? task::rank : task::embed;
}

/// As /v1/models names it.
[[nodiscard]] constexpr std::string_view to_string(task t) noexcept {
  return t == task::generate ? "completion" : t == task::embed ? "embeddings" : "rerank";
}

/// Error: invalid_request that says what the model is served for, and what to do.
[[nodiscard]] engine::result<void> check_task(const engine::worker_identity& identity, task wanted);

}  // namespace orcd::net
