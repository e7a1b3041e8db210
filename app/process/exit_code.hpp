// The process's exit codes: a contract with systemd, the pool manager and scripts.
#pragma once

#include "engine/base/error.hpp"

namespace orcd::app {

enum class exit_code : int {
  ok = 0,       ///< stopped on request; open streams were finished, or told why not
  failure = 1,  ///< start-up failed, or the accelerator failed for good
  usage = 2,    ///< an option, environment variable or config key is wrong, for itself or beside others
  // 3 and 4 are for the CUDA backend, so that a supervisor can tell a fault that a restart cures from a
  // device that is gone.
  cuda_fault = 3,
  device_lost = 4,
  waking_timeout = 70,  ///< it had the failover lock and did not come to serve in time
  stale_weights = 71,   ///< the weights that other engines share are not this one's, or damaged
  weights_lost = 72,    ///< the holder of the weights does not answer
  // A second signal ended the process before its streams were finished: 128 + signal, as shells do.
  interrupted = 130,
  terminated = 143,
};

/// How the process ends when the accelerator failed for good while it served (M0-W-1501).
[[nodiscard]] constexpr exit_code fault_exit_code(engine::errc code, bool device_lost) noexcept {
  if (code != engine::errc::cuda_error) return exit_code::failure;
  return device_lost ? exit_code::device_lost : exit_code::cuda_fault;
}

/// How the process ends when it could not start. What only other options cure, no other start does, and a
/// service manager would try for ever.
[[nodiscard]] inline exit_code start_exit_code(const engine::error& why) noexcept {
  if (why.permanent) return exit_code::usage;
  if (why.code == engine::errc::stale_weights) return exit_code::stale_weights;
  return why.code == engine::errc::weights_lost ? exit_code::weights_lost : exit_code::failure;
}

}  // namespace orcd::app
