// What a child that decodes a stranger's bytes may do: read, write, take and give memory, and end. Every
// other system call ends it (SECCOMP_RET_KILL_PROCESS).
#pragma once

#include <cstdint>

namespace orcd::app {

/// Limits of memory, time and descriptors, and then the filter. False where the system has no filters: then
/// nothing may be decoded. Cannot be undone.
[[nodiscard]] bool confine_child(std::uint64_t memory_bytes) noexcept;

}  // namespace orcd::app
