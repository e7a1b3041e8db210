// Adds up the pieces of a VRAM arena before it exists, so that the plan, the allocation and the upload
// agree on every offset. Host arithmetic alone. Source: M0-W-1220.
#pragma once

#include <cstdint>

namespace orcd::gpu {

inline constexpr std::uint64_t vram_alignment = 256;

[[nodiscard]] constexpr std::uint64_t vram_aligned(std::uint64_t bytes) noexcept {
  return (bytes + vram_alignment - 1) / vram_alignment * vram_alignment;
}

class arena_plan {
 public:
  /// Reserves `bytes`; returns the offset, a multiple of vram_alignment.
  std::uint64_t reserve(std::uint64_t bytes) noexcept {
    const std::uint64_t offset = bytes_;
    bytes_ += vram_aligned(bytes);
    return offset;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
};

}  // namespace orcd::gpu
