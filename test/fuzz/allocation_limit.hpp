// An oracle of fuzz targets: no single allocation is larger than the target allows. Included once by a
// target.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace orcd::fuzz {

inline std::size_t allowed = SIZE_MAX;  ///< bytes of one allocation

inline void on_allocation(const volatile void*, std::size_t size) {
  if (size <= allowed) return;
  std::fprintf(stderr, "an allocation of %zu bytes; the limit is %zu\n", size, allowed);
  std::abort();
}

inline void on_free(const volatile void*) {}

[[maybe_unused]] inline const int hooks = __sanitizer_install_malloc_and_free_hooks(on_allocation, on_free);

}  // namespace orcd::fuzz
