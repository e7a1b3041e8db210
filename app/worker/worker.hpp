// The worker as a whole: builds every part in order, runs the io loop on the calling thread until the process
// has to end, and tears everything down in reverse. Source: M0-W-1110, M0-W-1111, WORK-3011, WORK-3012.
#pragma once

#include <functional>

#include "app/options/options.hpp"
#include "app/process/exit_code.hpp"
#include "app/process/narration.hpp"
#include "app/process/process_guard.hpp"

namespace orcd::app {

/// Blocks until SIGTERM, SIGINT, POST /shutdown, a start-up failure (one ERROR narration) or a fatal
/// accelerator failure. `guard` gives the signals and bounds the time of the teardown; keep it until the
/// process ends. `read_again` reads all options once more for SIGHUP, on a background thread.
[[nodiscard]] exit_code run_worker(const options& opts, log_narrator& narrator, process_guard& guard,
                                   std::function<engine::result<options>()> read_again);

}  // namespace orcd::app
