// How long something takes, on a machine that does other work beside it.
#pragma once

#include <time.h>

namespace orcd::test {

/// What the calling thread has used of processors since it began: no wait and nobody else's work is in it.
[[nodiscard]] inline double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace orcd::test
