// Where a token of a step belongs: every kernel of a forward pass reads it. Shared by host and device code;
// no CUDA types.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// Where one token of a step belongs. Kernels read these from device memory, so that a captured graph needs
/// no new parameters from step to step.
struct step_token {
  std::int32_t token = 0;
  std::int32_t position = 0;
  std::int32_t slot = 0;
};

}  // namespace orcd::kernels
