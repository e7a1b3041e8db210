#include "gpu/memory/memfd_driver.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "engine/accelerator.hpp"

namespace orcd::gpu {
namespace {

using engine::accelerator_failure;
using engine::errc;

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr int read_seals = size_seals | F_SEAL_FUTURE_WRITE;

[[noreturn]] void fail(const std::string& what) {
  const int code = errno;
  throw accelerator_failure(errc::insufficient_vram,
                            what + ": " + std::error_code(code, std::generic_category()).message());
}

int descriptor_of(std::uint64_t handle) {
  return static_cast<int>(handle);
}

void* pointer_of(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

/// A page that the system cannot give is an error here, and not a signal when it is first written.
void take_pages(int fd, std::uint64_t bytes) {
  int status = 0;
  do {
    status = ::fallocate(fd, 0, 0, static_cast<off_t>(bytes));
  } while (status != 0 && errno == EINTR);
  if (status != 0) fail("memory of " + std::to_string(bytes) + " bytes to share");
}

[[noreturn]] void refuse(const std::string& why) {
  throw accelerator_failure(errc::stale_weights, why);
}

int duplicate_of(int fd) {
  const int duplicate = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (duplicate < 0) fail("a descriptor of shared memory");
  return duplicate;
}

}  // namespace

memfd_driver& memfd_driver::instance() {
  static memfd_driver driver("orcd-weights");
  return driver;
}

memfd_driver& memfd_driver::for_caches() {
  static memfd_driver driver("orcd-kv-cache");
  return driver;
}

std::uint64_t memfd_driver::round_up(std::uint64_t bytes) noexcept {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

std::uint64_t memfd_driver::create(std::uint64_t bytes) {
  engine::file_descriptor memory(::memfd_create(name_, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) fail("a memory file to share");
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) fail("the size of shared memory");
  take_pages(memory.get(), bytes);
  if (::fcntl(memory.get(), F_ADD_SEALS, size_seals) != 0) fail("the seals of shared memory");
  return static_cast<std::uint64_t>(memory.release());
}

void memfd_driver::release(std::uint64_t handle) noexcept {
  ::close(descriptor_of(handle));
}

std::uintptr_t memfd_driver::reserve(std::uint64_t bytes) {
  void* const range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) fail("addresses for shared memory");
  return reinterpret_cast<std::uintptr_t>(range);
}

void memfd_driver::give_back(std::uintptr_t address, std::uint64_t bytes) noexcept {
  ::munmap(pointer_of(address), bytes);
}

/// A dump of the process has no use for it.
void memfd_driver::map(std::uintptr_t address, std::uint64_t bytes, std::uint64_t handle) {
  void* const range = pointer_of(address);
  if (::mmap(range, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor_of(handle), 0) == MAP_FAILED) {
    fail("the mapping of shared memory");
  }
  ::madvise(range, bytes, MADV_DONTDUMP);
}

/// The addresses stay reserved.
void memfd_driver::unmap(std::uintptr_t address, std::uint64_t bytes) noexcept {
  constexpr int nothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  static_cast<void>(::mmap(pointer_of(address), bytes, PROT_NONE, nothing, -1, 0));
}

void memfd_driver::open(std::uintptr_t address, std::uint64_t bytes, arena_access access) {
  const int allowed = access == arena_access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  if (::mprotect(pointer_of(address), bytes, allowed) != 0) fail("access to shared memory");
}

engine::file_descriptor memfd_driver::export_fd(std::uint64_t handle) {
  return engine::file_descriptor(duplicate_of(descriptor_of(handle)));
}

std::uint64_t memfd_driver::import_fd(int fd, std::uint64_t bytes, arena_access access) {
  const bool reads = access == arena_access::read;
  const std::string is = reads ? "the shared weights are " : "the shared KV cache is ";
  const std::string has = reads ? "the shared weights have " : "the shared KV cache has ";
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) refuse(is + "no memory file");
  const int needed = reads ? read_seals : size_seals;
  if ((seals & needed) != needed) {
    refuse(is + "not sealed against " + (reads ? "writes and resizing" : "resizing") + ": seals " +
           std::to_string(seals));
  }
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) fail("the size of shared memory");
  if (static_cast<std::uint64_t>(facts.st_size) != bytes) {
    refuse(has + std::to_string(facts.st_size) + " bytes, the model needs " + std::to_string(bytes));
  }
  return static_cast<std::uint64_t>(duplicate_of(fd));
}

void memfd_driver::seal(std::uint64_t handle) {
  if (::fcntl(descriptor_of(handle), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    fail("the seals of shared memory");
  }
}

}  // namespace orcd::gpu
