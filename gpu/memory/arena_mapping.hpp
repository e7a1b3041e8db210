// The steps that make an arena, and their undoing in reverse order when one of them fails or the arena
// ends: create or import, reserve, map, open, zero. The driver is an interface, so that every failure is
// tested without a GPU. One thread (the GPU thread). Source: M0-W-1220, M0-W-1021.
#pragma once

#include <cstdint>

#include "engine/base/file_descriptor.hpp"

namespace orcd::gpu {

enum class arena_access { read, read_write };

/// The device's side. The functions that can fail throw; those that undo do not.
class arena_driver {
 public:
  virtual ~arena_driver() = default;
  /// A handle of `bytes` of physical memory.
  [[nodiscard]] virtual std::uint64_t create(std::uint64_t bytes) = 0;
  virtual void release(std::uint64_t handle) noexcept = 0;
  /// An address range, not 0.
  [[nodiscard]] virtual std::uintptr_t reserve(std::uint64_t bytes) = 0;
  virtual void give_back(std::uintptr_t address, std::uint64_t bytes) noexcept = 0;
  virtual void map(std::uintptr_t address, std::uint64_t bytes, std::uint64_t handle) = 0;
  virtual void unmap(std::uintptr_t address, std::uint64_t bytes) noexcept = 0;
  /// What this process's mapping lets the device do, from now on.
  virtual void open(std::uintptr_t address, std::uint64_t bytes, arena_access access) = 0;
  virtual void zero(std::uintptr_t address, std::uint64_t bytes) = 0;

  /// A descriptor by which another process can import the memory.
  [[nodiscard]] virtual engine::file_descriptor export_fd(std::uint64_t handle) = 0;
  /// A handle of another process's memory; `fd` stays the caller's. Throws, with stale_weights, unless it is
  /// memory of this device, `bytes` long, that cannot become shorter and, if it is to be read, that nobody
  /// can begin to write to.
  [[nodiscard]] virtual std::uint64_t import_fd(int fd, std::uint64_t bytes, arena_access access) = 0;
  /// No new mapping can be written to, where the system has that.
  virtual void seal(std::uint64_t handle) = 0;
};

class arena_mapping {
 public:
  arena_mapping() = default;
  /// `bytes` is a multiple of the driver's granularity; `driver` outlives the object. Throws what the
  /// driver throws, with every earlier step undone.
  arena_mapping(arena_driver& driver, std::uint64_t bytes);
  /// Memory of another process.
  arena_mapping(arena_driver& driver, int fd, std::uint64_t bytes, arena_access access = arena_access::read);
  ~arena_mapping();
  arena_mapping(arena_mapping&& other) noexcept { swap(other); }
  arena_mapping& operator=(arena_mapping&& other) noexcept {
    swap(other);
    return *this;
  }

  /// It is only read from here on, by this process too: a stray write faults instead of spoiling what others
  /// compute with. Nothing that the device does may still write to it.
  void freeze();
  [[nodiscard]] engine::file_descriptor export_fd() const { return driver_->export_fd(handle_); }

  /// Lets the memory go and keeps the addresses, which nobody may use until map_again().
  void drop() noexcept;
  /// Another process's memory at these addresses, to be read. Throws what the driver throws, and has none
  /// then.
  void map_again(int fd);

  [[nodiscard]] std::uintptr_t address() const noexcept { return address_; }  ///< 0 = none
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void place(arena_access access);
  void swap(arena_mapping& other) noexcept;

  arena_driver* driver_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t handle_ = 0;
  std::uintptr_t address_ = 0;
  bool created_ = false;
  bool mapped_ = false;
};

}  // namespace orcd::gpu
