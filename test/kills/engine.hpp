// An engine of the test of kills: a server of one thread over the journal's library and the kernel, which
// waits for the lock, takes over what the engine before has left, and answers until it dies.
#pragma once

#include <cstdint>
#include <string>

#include "test/kills/channel.hpp"
#include "test/kills/death.hpp"

namespace orcd::kills {

struct engine_start {
  std::string lock;  ///< path of the file
  int channel = -1;
  int journal = -1;
  board* counts = nullptr;
  death end{point::none, 1, 1};
};

/// Returns when the holder is gone. The exit code.
int run_engine(engine_start start);

}  // namespace orcd::kills
