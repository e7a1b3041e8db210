// Whether the numbers that a tensor's values are made of are finite: the d, m and dmin of each block, and
// every value of an unquantized tensor. Pure; any thread. Source: M0-W-1210; OCP MX v1.0 for E8M0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::kernels::host {

struct not_finite {
  std::uint64_t block = 0;  ///< from the first byte given; of an unquantized type: the value's index
  const char* part = "";    ///< "d", "dmin", "m", "scale" or "value"
  const char* what = "";    ///< "NaN" or "infinite"
};

/// The first of `blocks` blocks at `data` with a number that is not finite. One pass over all of them that
/// branches on none, and a second only when there is one. An MXFP4 scale of 255 is NaN by its standard.
[[nodiscard]] std::optional<not_finite> find_not_finite(engine::ggml_type type, const std::byte* data,
                                                        std::uint64_t blocks);

}  // namespace orcd::kernels::host
