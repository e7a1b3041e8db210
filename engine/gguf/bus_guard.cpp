#include "engine/gguf/bus_guard.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace orcd::engine::bus_guard {
namespace {

// A row is free while `size` is 0; the handler reads it only when it is not. `begin` is written before
// `size`.
struct row_state {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::size_t> size{0};
  std::atomic<bool> damaged{false};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free, "used in a signal handler");

std::array<row_state, capacity> rows;  // NOLINT: a signal handler can reach globals only
struct sigaction previous {};
std::uintptr_t page_size = 4096;

/// Puts zeros from the page of `fault` to the end of its mapping, all of which lie beyond the file's end.
bool patch(std::uintptr_t fault) noexcept {
  for (row_state& row : rows) {
    const std::size_t size = row.size.load(std::memory_order_acquire);
    const std::uintptr_t begin = row.begin.load(std::memory_order_relaxed);
    if (size == 0 || fault < begin || fault - begin >= size) continue;
    const std::uintptr_t page = fault & ~(page_size - 1);
    // The system call itself: the thread sanitizer takes mmap() for a write to pages that others read.
    const long mapped = ::syscall(SYS_mmap, page, begin + size - page, PROT_READ,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
    if (mapped == -1) return false;
    row.damaged.store(true, std::memory_order_release);
    return true;
  }
  return false;
}

/// Async-signal-safe: atomics and mmap only.
void on_bus_error(int signal, siginfo_t* info, void* context) noexcept {
  if (patch(reinterpret_cast<std::uintptr_t>(info->si_addr))) return;
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
    return;
  }
  sigaction(SIGBUS, &previous, nullptr);  // the faulting instruction runs again and reaches that handler
}

/// Called with every mapping, because a library may have installed its own handler since the last one.
void install() noexcept {
  struct sigaction current {};
  sigaction(SIGBUS, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_bus_error) return;
  previous = current;
  page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

int watch(const std::byte* data, std::size_t size) noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  install();
  for (int i = 0; i < capacity; ++i) {
    row_state& row = rows[static_cast<std::size_t>(i)];
    if (row.size.load(std::memory_order_relaxed) != 0) continue;
    row.damaged.store(false, std::memory_order_relaxed);
    row.begin.store(reinterpret_cast<std::uintptr_t>(data), std::memory_order_relaxed);
    row.size.store(size, std::memory_order_release);
    return i;
  }
  return -1;
}

void unwatch(int row) noexcept {
  if (row >= 0) rows[static_cast<std::size_t>(row)].size.store(0, std::memory_order_release);
}

bool damaged(int row) noexcept {
  return row >= 0 && rows[static_cast<std::size_t>(row)].damaged.load(std::memory_order_acquire);
}

}  // namespace orcd::engine::bus_guard
