// Counts the device and pinned memory that the owners in this process hold, and the allocations made after
// the worker was ready: that number must stay 0. Tests make allocations fail here. Any thread; lock-free.
// Source: M0-W-1011, M0-W-1021.
#pragma once

#include <cstdint>

namespace orcd::gpu {

struct allocation_counts {
  std::uint64_t device_allocations = 0;  ///< since the process started
  std::uint64_t device_bytes = 0;        ///< held now
  std::uint64_t pinned_bytes = 0;        ///< held now
  std::uint64_t after_seal = 0;          ///< device allocations since seal_allocations(); 0 before it
};

[[nodiscard]] allocation_counts counted_allocations() noexcept;

/// From now on allocations count as made after READY. A second call starts again from 0.
void seal_allocations() noexcept;
/// Ends that, for a worker that loads again and for tests.
void unseal_allocations() noexcept;

// For the owners of memory. Before a device allocation they ask whether a test wants it to fail.
[[nodiscard]] bool allocation_must_fail() noexcept;
void device_memory_taken(std::uint64_t bytes) noexcept;
void device_memory_freed(std::uint64_t bytes) noexcept;
void pinned_memory_taken(std::uint64_t bytes) noexcept;
void pinned_memory_freed(std::uint64_t bytes) noexcept;

/// Fault injection: `allowed` more device allocations succeed, then one fails as if VRAM had run out.
void fail_allocation_after(std::uint32_t allowed) noexcept;

}  // namespace orcd::gpu
