// GET /v1/models and /v1/models/{id}: the one model there is. Pure. Source: features.md (d). Private to net/.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/worker_state.hpp"
#include "net/respond.hpp"

namespace orcd::net {

/// `created`: seconds since 1970 at which the worker started.
[[nodiscard]] reply answer_models(const engine::worker_identity& identity, std::int64_t created);
[[nodiscard]] reply answer_model(const engine::worker_identity& identity, std::int64_t created,
                                 std::string_view id);

}  // namespace orcd::net
