// What the environment says to the token pipe. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/options/parse_options.hpp"
#include "app/pipe/conversation.hpp"

namespace orcd::app {

struct pipe_settings {
  options opts;  ///< of the device, the memory and the model; `threads` 0 = as the SDK says
  std::optional<std::uint64_t> seed;  ///< nullopt: each answer has a random one
  limit_style limit = limit_style::end_token;
};

/// Of worker-orcd's own variables those that concern the device, the memory and the model; the backend is the
/// host unless one is named. Errors (invalid_request) name the variable, its value and what it may be.
[[nodiscard]] engine::result<pipe_settings> read_pipe_settings(const std::string& model_dir,
                                                               const environment& env);

}  // namespace orcd::app
