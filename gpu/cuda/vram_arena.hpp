// One VRAM allocation for one purpose (weights, or KV cache and workspace), cut into 256-byte aligned pieces
// by a plan that is made before anything is allocated. cuMemCreate with a POSIX file descriptor handle, so
// that the memory can be handed to another process. GPU thread only. Source: M0-W-1220.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "gpu/cuda/cuda_error.hpp"
#include "gpu/memory/arena_mapping.hpp"
#include "gpu/plan/arena_plan.hpp"

namespace orcd::gpu {

class vram_arena {
 public:
  vram_arena() = default;
  /// Allocates and maps `bytes` on `device`, rounded up to the driver's granularity, zeroed.
  /// Throws cuda_failure: vram_oom when the memory is not there.
  vram_arena(int device, std::uint64_t bytes);
  /// Maps memory that another process exported, of a plan of `bytes`; takes no VRAM. Throws
  /// cuda_failure, or accelerator_failure (stale_weights) when it is not memory of this device.
  vram_arena(int device, int fd, std::uint64_t bytes, arena_access access = arena_access::read);
  ~vram_arena();
  vram_arena(vram_arena&& other) noexcept { *this = std::move(other); }
  vram_arena& operator=(vram_arena&& other) noexcept {
    mapping_ = std::move(other.mapping_);  // which swaps
    std::swap(imported_, other.imported_);
    return *this;
  }

  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return reinterpret_cast<T*>(mapping_.address() + offset);
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return mapping_.bytes(); }
  /// What an arena for `bytes` takes, by the driver's granularity.
  [[nodiscard]] static std::uint64_t size_of(int device, std::uint64_t bytes);

  /// Kernels only read it from here on; one that writes to it faults. Waits for what is under way.
  void freeze();
  [[nodiscard]] engine::file_descriptor export_fd() const { return mapping_.export_fd(); }

  /// Lets the memory go and keeps the addresses. Waits for what is under way.
  void drop();
  /// Another process's memory at these addresses. Throws as the constructor does.
  void map_again(int fd);

 private:
  arena_mapping mapping_;
  bool imported_ = false;
};

}  // namespace orcd::gpu
