// What a holder makes for the engines, and what it takes from one that has it from the holder before: the
// journal, and checks of descriptors that come from elsewhere.
#pragma once

#include <cstdint>

#include "engine/base/error.hpp"
#include "net/failover/file_descriptor.hpp"

namespace orcd::app {

/// What a system call that failed with this number is for whoever starts a holder: not_ready where the same
/// start may work a moment later, because something has run out; else worker_start_failed.
[[nodiscard]] engine::errc start_errc(int number) noexcept;

/// A new journal: memory of this many MiB, without a name in any file system, that nobody can make shorter or
/// longer. Errors: as start_errc().
[[nodiscard]] engine::result<net::file_descriptor> make_journal(std::uint32_t mib);
/// Whether it is such memory.
[[nodiscard]] bool is_journal(int descriptor) noexcept;
/// Whether it is a TCP socket that listens, or one that does not.
[[nodiscard]] bool is_listening(int descriptor) noexcept;
[[nodiscard]] bool is_connection(int descriptor) noexcept;

/// Whether an engine may share it as memory of this many bytes: not a socket, a pipe or a folder, and no file
/// that is shorter. What the GPU driver gives is no file with a length.
[[nodiscard]] bool is_memory(int descriptor, std::uint64_t bytes) noexcept;
/// Whether it stands for a process.
[[nodiscard]] bool is_process(int descriptor) noexcept;

/// Raises the limit of open files as far as it goes. Returns it.
std::uint64_t raise_descriptor_limit() noexcept;

}  // namespace orcd::app
