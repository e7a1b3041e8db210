// GET /v1/models and /v1/models/{id}: the one model that is served, under each of its ids, and its adapters.
// Pure. Private to net/.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/worker_state.hpp"
#include "net/http/respond.hpp"
#include "net/models/adapter_list.hpp"

namespace orcd::net {

/// `created`: seconds since 1970 at which the worker started.
[[nodiscard]] reply answer_models(const engine::worker_identity& identity, std::int64_t created,
                                  const shared_adapters& adapters = {});
/// `asked` is the name in the path, decoded; any that a request's `model` may have (model_names.hpp).
[[nodiscard]] reply answer_model(const engine::worker_identity& identity, std::int64_t created,
                                 std::string_view asked, const shared_adapters& adapters = {});

}  // namespace orcd::net
