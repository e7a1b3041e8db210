// What the worker's model is served for: generating, embedding or ranking. Pure. Private to net/.
#pragma once

#include <string_view>

#include "engine/worker_state.hpp"

namespace orcd::net {

enum class model_task { generate, embed, rank };

[[nodiscard]] inline model_task model_task_of(const engine::worker_identity& identity) noexcept {
  if (!identity.pooling) return model_task::generate;
  return *identity.pooling == engine::pooling_kind::rank ? model_task::rank : model_task::embed;
}

/// The name in /v1/models.
[[nodiscard]] constexpr std::string_view to_string(model_task t) noexcept {
  return t == model_task::generate ? "completion" : t == model_task::embed ? "embeddings" : "rerank";
}

/// Error: invalid_request that says what the model is served for, and what to do.
[[nodiscard]] engine::result<void> check_model_task(const engine::worker_identity& identity,
                                                    model_task wanted);

}  // namespace orcd::net
