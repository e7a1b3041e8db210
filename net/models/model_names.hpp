// Which names of the model and its adapters a request may use. Every endpoint that takes a model's name asks
// here. Pure. Private to net/.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/worker_state.hpp"
#include "net/models/adapter_list.hpp"

namespace orcd::net {

/// The ids under which /v1/models lists the model; the first is the one that answers have. The views point
/// into `served`.
[[nodiscard]] std::vector<std::string_view> model_ids(const engine::worker_identity& served);

/// The id that a client means by `asked`; nothing where it names another model. Names are compared without
/// case (of ASCII) and without ".gguf", and of two the longer may begin with further parts up to a slash:
/// "org/name" is "name". The file's own name is one too; what it or `--model-name *` lets in means the first
/// id.
[[nodiscard]] std::optional<std::string_view> find_model_id(const engine::worker_identity& served,
                                                            std::string_view asked);

/// Whether it is a name of the model even without `--model-name *`: no adapter may be called so.
[[nodiscard]] bool names_the_model(const engine::worker_identity& served, std::string_view name);

/// The adapter that a client means by `asked`, null where it means the model. Error: not_found with param
/// "model".
[[nodiscard]] engine::result<const served_adapter*> find_model(const engine::worker_identity& served,
                                                               const shared_adapters& adapters,
                                                               std::string_view asked);

/// The same where adapters make no difference.
[[nodiscard]] engine::result<void> check_model_name(const engine::worker_identity& served,
                                                    std::string_view asked,
                                                    const shared_adapters& adapters = {});

}  // namespace orcd::net
