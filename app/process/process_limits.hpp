// Limits that a process sets for itself.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace orcd::app {

/// A core dump holds the dead process's locks until it is written. 1 stops dumps to programs as well, which 0
/// does not (core(5)).
inline void forbid_core_dumps() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  ::setrlimit(RLIMIT_CORE, &limit);
}

}  // namespace orcd::app
