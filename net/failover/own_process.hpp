// A descriptor of this process, by which another one sees its end.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include "net/failover/file_descriptor.hpp"

namespace orcd::net {

/// Empty where the kernel has none to give; errno says why.
[[nodiscard]] inline file_descriptor own_pidfd() noexcept {
  return file_descriptor(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
}

}  // namespace orcd::net
