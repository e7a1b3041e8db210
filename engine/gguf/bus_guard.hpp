// The SIGBUS handler of mapped_file and its table of mappings. Process-wide, because signals are.
#pragma once

#include <cstddef>

namespace orcd::engine::bus_guard {

/// Mappings that can be watched at the same time.
inline constexpr int capacity = 1024;

/// Watches a mapping and sees to it that the handler is installed; -1 when the table is full.
[[nodiscard]] int watch(const std::byte* data, std::size_t size) noexcept;
/// Ends it; -1 is allowed.
void unwatch(int row) noexcept;
/// Whether zero pages had to be put into this mapping.
[[nodiscard]] bool damaged(int row) noexcept;

}  // namespace orcd::engine::bus_guard
