// Arenas in the host's memory, as files without a name (memfd): what one process has filled others map. The
// file cannot be resized, so that a mapping never runs past its end, and once it is sealed nobody can write
// to it any more. Any thread.
#pragma once

#include "gpu/memory/arena_mapping.hpp"

namespace orcd::gpu {

/// Throws engine::accelerator_failure: insufficient_vram where the memory is not there, stale_weights from
/// import_fd().
class memfd_driver final : public arena_driver {
 public:
  /// One for all arenas of weights; it has no state.
  [[nodiscard]] static memfd_driver& instance();
  /// One for all KV caches.
  [[nodiscard]] static memfd_driver& for_caches();
  [[nodiscard]] static std::uint64_t round_up(std::uint64_t bytes) noexcept;  ///< to whole pages

  std::uint64_t create(std::uint64_t bytes) override;
  void release(std::uint64_t handle) noexcept override;
  std::uintptr_t reserve(std::uint64_t bytes) override;
  void give_back(std::uintptr_t address, std::uint64_t bytes) noexcept override;
  void map(std::uintptr_t address, std::uint64_t bytes, std::uint64_t handle) override;
  void unmap(std::uintptr_t address, std::uint64_t bytes) noexcept override;
  void open(std::uintptr_t address, std::uint64_t bytes, arena_access access) override;
  void zero(std::uintptr_t, std::uint64_t) override {}  // the kernel's pages are
  engine::file_descriptor export_fd(std::uint64_t handle) override;
  std::uint64_t import_fd(int fd, std::uint64_t bytes, arena_access access) override;
  void seal(std::uint64_t handle) override;

 private:
  explicit memfd_driver(const char* name) noexcept : name_(name) {}
  const char* name_;  ///< as the system shows the memory
};

}  // namespace orcd::gpu
