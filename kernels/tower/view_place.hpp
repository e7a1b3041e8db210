// Where a patch lies in its view, in patches. Shared by host and device code; no CUDA types.
#pragma once

#include <cstdint>

namespace orcd::kernels {

struct view_place {
  std::uint32_t line = 0, column = 0;
};

}  // namespace orcd::kernels
