// ollama's names of models have a tag: "name:tag", and a name without one is "name:latest". Pure. Private to
// net/.
#pragma once

#include <string>
#include <string_view>

#include "engine/worker_state.hpp"
#include "net/models/adapter_list.hpp"

namespace orcd::net {

/// The name with a tag, ":latest" where it has none.
[[nodiscard]] std::string with_tag(std::string_view name);

/// The name that a client means by `asked`: without ":latest", unless the model or an adapter is called so.
[[nodiscard]] std::string_view without_tag(const engine::worker_identity& served,
                                           const shared_adapters& adapters, std::string_view asked);

}  // namespace orcd::net
