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

/// What turns the heads of a token, of a model that turns them by three positions: its time, line and column.
/// They lie beside the tokens, since other models have none.
struct step_turn {
  std::int32_t of[3] = {};
};

/// Positions that a token of a prompt sees besides those before it: from `first` up to `end`, its own among
/// them. Columns of one block follow one another. end 0: there are none.
struct seen_block {
  std::int32_t first = 0;
  std::int32_t end = 0;
};

}  // namespace orcd::kernels
