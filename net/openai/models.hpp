// GET /v1/models and /v1/models/{id}: the one model that is served, under each of its ids. Pure. Private to
// net/.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/worker_state.hpp"
#include "net/http/respond.hpp"

namespace orcd::net {

/// `created`: seconds since 1970 at which the worker started.
[[nodiscard]] reply answer_models(const engine::worker_identity& identity, std::int64_t created);
/// `asked` is the name in the path, decoded; any that a request's `model` may have (model_names.hpp).
[[nodiscard]] reply answer_model(const engine::worker_identity& identity, std::int64_t created,
                                 std::string_view asked);

}  // namespace orcd::net
