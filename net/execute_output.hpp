// The events of an /execute stream. Source: M0-W-1310..1312. Private to net/.
#pragma once

#include <memory>

#include "net/job_output.hpp"

namespace orcd::net {

struct execution_config;

[[nodiscard]] std::unique_ptr<job_output> make_execute_output(const execution_config& config);

}  // namespace orcd::net
