// The SIGBUS handler of mapped_file and its table of mappings. One per process, as signal handlers are.
#pragma once

#include <cstddef>

namespace orcd::engine::bus_guard {

/// The most mappings that can be watched at the same time.
inline constexpr int capacity = 1024;

/// Watches a mapping and installs the handler if necessary. Returns the mapping's row; -1 when the table is
/// full.
[[nodiscard]] int watch(const std::byte* data, std::size_t size) noexcept;
/// Ends the watch of a row; -1 is ignored.
void unwatch(int row) noexcept;
/// Whether the handler has put zero pages into this mapping.
[[nodiscard]] bool damaged(int row) noexcept;

}  // namespace orcd::engine::bus_guard
