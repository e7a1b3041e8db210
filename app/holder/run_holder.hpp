// The holder as a process: its parts in order, its signals and its end.
#pragma once

#include "app/holder/holder_options.hpp"
#include "app/process/exit_code.hpp"

namespace orcd::app {

/// Runs until SIGTERM or SIGINT.
[[nodiscard]] exit_code run_holder(const holder_options& opts, engine::narrator& narrator);

/// Exit code of --check; prints one line.
[[nodiscard]] exit_code run_check(const holder_options& opts);

}  // namespace orcd::app
