// The families of /metrics that a worker with a projector has. Any thread.
#pragma once

#include <string>

#include "engine/media/media_decoder.hpp"
#include "engine/worker_state.hpp"

namespace orcd::net {

[[nodiscard]] std::string render_media_metrics(const engine::decoder_counts& counts,
                                               const engine::media_state& media);

}  // namespace orcd::net
