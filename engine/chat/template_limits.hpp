// What compiling and rendering one chat template may cost. A template comes with a model file or, where that
// is allowed, with a request: neither is trusted. Each limit is an error that names it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace orcd::engine {

struct template_limits {
  std::size_t source_bytes = 1U << 20U;   ///< the template itself
  std::size_t output_bytes = 4U << 20U;   ///< the rendered prompt
  std::size_t memory_bytes = 64U << 20U;  ///< values made while rendering; also the compiled template
  std::uint64_t steps = 4'000'000;      ///< nodes evaluated, list entries and 64-byte units of text looked at
  std::uint32_t depth = 600;            ///< nested evaluation, macro calls and values
  std::uint32_t nesting = 120;          ///< nested brackets and blocks in the source
  std::chrono::milliseconds time{250};  ///< wall time of one rendering
};

}  // namespace orcd::engine
