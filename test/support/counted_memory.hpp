// What the heap really gives a thread, by operators new and delete of its own, or by AddressSanitizer's
// hooks, which wants to own those operators. For one source of an executable.
#pragma once

#include <malloc.h>

#include <cstddef>

#include "test/support/failing_memory.hpp"
#ifdef ORCD_HEAP_HOOKS
// Of the sanitizers' runtime; g++ comes without the header that declares it.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t),
                                                         void (*)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void*);
#endif

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace orcd::test {

/// Bytes that a block costs beside what can be used of it.
inline constexpr std::size_t block_head = 8;

inline thread_local std::ptrdiff_t heap_bytes = 0;
inline thread_local std::ptrdiff_t heap_peak = 0;

/// The most that its thread had at once since it was made, beyond what it had then.
class heap_watch {
 public:
  heap_watch() : before_(heap_bytes) { heap_peak = heap_bytes; }
  [[nodiscard]] std::size_t peak() const { return static_cast<std::size_t>(heap_peak - before_); }
  /// What is there now and was not.
  [[nodiscard]] std::ptrdiff_t held() const { return heap_bytes - before_; }

 private:
  std::ptrdiff_t before_;
};

inline void count_heap(std::ptrdiff_t bytes) noexcept {
  heap_bytes += bytes;
  heap_peak = std::max(heap_peak, heap_bytes);
}

#ifdef ORCD_HEAP_HOOKS
inline const int heap_hooks = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t size) {
      count_heap(static_cast<std::ptrdiff_t>(size + block_head));
    },
    [](const volatile void* block) {
      const auto size = __sanitizer_get_allocated_size(const_cast<const void*>(block));
      count_heap(-static_cast<std::ptrdiff_t>(size + block_head));
    });
#else
inline void* counted_block(void* block) {
  if (allocations_left >= 0 && --allocations_left < 0) {
    allocations_left = 0;
    std::free(block);
    throw std::bad_alloc();
  }
  if (block == nullptr) throw std::bad_alloc();
  count_heap(static_cast<std::ptrdiff_t>(malloc_usable_size(block) + block_head));
  return block;
}
inline void free_counted(void* block) noexcept {
  if (block == nullptr) return;
  count_heap(-static_cast<std::ptrdiff_t>(malloc_usable_size(block) + block_head));
  std::free(block);
}
#endif

}  // namespace orcd::test

#ifndef ORCD_HEAP_HOOKS
void* operator new(std::size_t size) {
  return orcd::test::counted_block(std::malloc(size));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return orcd::test::counted_block(std::aligned_alloc(step, (size + step - 1) / step * step));
}
void operator delete(void* block) noexcept {
  orcd::test::free_counted(block);
}
void operator delete(void* block, std::size_t) noexcept {
  orcd::test::free_counted(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  orcd::test::free_counted(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  orcd::test::free_counted(block);
}
#endif
