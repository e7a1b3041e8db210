// The worker as a whole: builds every part in order, runs the io loop on the calling thread until the
// process is to end, and takes everything down in reverse. Source: M0-W-1110, M0-W-1111, WORK-3011,
// WORK-3012, design 6.
#pragma once

#include "app/exit_code.hpp"
#include "app/exit_guard.hpp"
#include "app/narration.hpp"
#include "app/options.hpp"

namespace orcd::app {

/// Blocks until SIGTERM, SIGINT, POST /shutdown, a start-up failure (one ERROR narration) or a fatal
/// accelerator failure. `guard` bounds the teardown that follows; keep it until the process ends.
[[nodiscard]] exit_code run_worker(const options& opts, log_narrator& narrator, exit_guard& guard);

}  // namespace orcd::app
