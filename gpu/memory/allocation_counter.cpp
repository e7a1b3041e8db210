#include "gpu/memory/allocation_counter.hpp"

#include <atomic>

namespace orcd::gpu {
namespace {

constexpr std::uint64_t not_sealed = ~std::uint64_t{0};

std::atomic<std::uint64_t> device_allocations{0};
std::atomic<std::uint64_t> device_bytes{0};
std::atomic<std::uint64_t> pinned_bytes{0};
std::atomic<std::uint64_t> sealed_at{not_sealed};
std::atomic<std::int64_t> until_failure{-1};  ///< negative: no failure is requested

}  // namespace

allocation_counts counted_allocations() noexcept {
  const std::uint64_t sealed = sealed_at;
  const std::uint64_t made = device_allocations;
  return {.device_allocations = made,
          .device_bytes = device_bytes,
          .pinned_bytes = pinned_bytes,
          .after_seal = sealed == not_sealed ? 0 : made - sealed};
}

void seal_allocations() noexcept {
  sealed_at = device_allocations.load();
}
void unseal_allocations() noexcept {
  sealed_at = not_sealed;
}

bool allocation_must_fail() noexcept {
  // Only tests store anything but -1, so in a worker this is one load.
  if (until_failure.load() < 0) return false;
  return until_failure.fetch_sub(1) == 0;
}

void device_memory_taken(std::uint64_t bytes) noexcept {
  ++device_allocations;
  device_bytes += bytes;
}
void device_memory_freed(std::uint64_t bytes) noexcept {
  device_bytes -= bytes;
}
void pinned_memory_taken(std::uint64_t bytes) noexcept {
  pinned_bytes += bytes;
}
void pinned_memory_freed(std::uint64_t bytes) noexcept {
  pinned_bytes -= bytes;
}

void fail_allocation_after(std::uint32_t allowed) noexcept {
  until_failure = allowed;
}

}  // namespace orcd::gpu
