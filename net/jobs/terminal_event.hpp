// The last event of a job. Private to net/.
#pragma once

#include <variant>

#include "engine/schedule/job.hpp"

namespace orcd::net {

using terminal_event = std::variant<engine::end_event, engine::error_event>;

}  // namespace orcd::net
