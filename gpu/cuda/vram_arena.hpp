// One VRAM allocation for one purpose (weights, or KV cache and workspace), cut into 256-byte aligned pieces
// by a plan that is made before anything is allocated. cuMemCreate with a POSIX file descriptor handle, so
// that the memory can be handed to another process. GPU thread only. Source: M0-W-1220.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/cuda_error.hpp"
#include "gpu/plan/arena_mapping.hpp"
#include "gpu/plan/arena_plan.hpp"

namespace orcd::gpu {

class vram_arena {
 public:
  vram_arena() = default;
  /// Allocates and maps `bytes` on `device`, rounded up to the driver's granularity, zeroed.
  /// Throws cuda_failure: vram_oom when the memory is not there.
  vram_arena(int device, std::uint64_t bytes);
  ~vram_arena();
  vram_arena(vram_arena&&) noexcept = default;
  vram_arena& operator=(vram_arena&&) noexcept = default;

  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(mapping_.address() + offset);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return mapping_.bytes(); }

 private:
  arena_mapping mapping_;
};

}  // namespace orcd::gpu
