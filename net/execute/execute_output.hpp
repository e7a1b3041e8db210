// The events of an /execute stream. Source: M0-W-1310..1312. Private to net/.
#pragma once

#include <memory>

#include "net/jobs/job_output.hpp"

namespace orcd::net {

struct job_execution_config;

/// `metrics`: the request asked for one `metrics` event before `end`.
[[nodiscard]] std::unique_ptr<job_output> make_execute_output(const job_execution_config& config,
                                                              bool metrics);

}  // namespace orcd::net
