// Allocations that fail where a test says so. The executable also needs the operators of
// counted_memory.hpp, in one of its sources.
#pragma once

#include <cstddef>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#define ORCD_HEAP_HOOKS
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ORCD_HEAP_HOOKS
#endif
#endif

namespace orcd::test {

/// Of the calling thread, before each further one throws std::bad_alloc; negative: all succeed.
inline thread_local std::ptrdiff_t allocations_left = -1;

/// AddressSanitizer has operators of its own, which know nothing of this.
#ifdef ORCD_HEAP_HOOKS
inline constexpr bool allocations_can_fail = false;
#else
inline constexpr bool allocations_can_fail = true;
#endif

/// Calls `work` again and again: the first time its first allocation and all behind it fail, then those from
/// the second one on, until it has enough. `judge` is called after each failure. Returns how often it failed.
template <class Work, class Judge>
std::size_t fail_from_each_allocation_on(const Work& work, const Judge& judge) {
  for (std::size_t failures = 0;; ++failures) {
    allocations_left = static_cast<std::ptrdiff_t>(failures);
    try {
      work();
      allocations_left = -1;
      return failures;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
      judge();
    }
  }
}

}  // namespace orcd::test
