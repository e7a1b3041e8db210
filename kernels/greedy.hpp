// The token with the highest logit, lowest id on ties, banned ids left out: temperature 0 on the device.
// Integer maxima over order-preserving keys, so that the order of the reduction cannot matter.
// Determinism class: run-to-run, batch-invariant. Source: M0-W-1032, design 5.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace orcd::kernels {

struct greedy_args {
  const float* logits = nullptr;  ///< [columns][vocab]
  std::uint32_t vocab = 0;
  std::uint32_t columns = 0;
  const std::uint32_t* banned = nullptr;  ///< bit per id, [(vocab + 31) / 32]; or null
  unsigned long long* keys = nullptr;     ///< workspace, [columns]
  std::int32_t* tokens = nullptr;         ///< out, [columns]; -1 when nothing can be chosen
};
[[nodiscard]] int launch_greedy(const greedy_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
