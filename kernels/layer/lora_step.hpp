// What the kernels of LoRA adapters (lora.hpp) are told of the step that their product is in. Shared by host
// and device code; no CUDA types.
#pragma once

#include "kernels/layer/lora_args.hpp"

namespace orcd::kernels {

/// Shared memory that a few-column product leaves (launch_balanced_matvec), so that the kernel that adds
/// adapters to its outputs can run beside it.
inline constexpr std::uint32_t lora_shared_bytes = 24 * 1024;

/// The product whose adapters are added after these: what its kernel will read of A and B is asked for ahead.
struct lora_next {
  lora_matrix matrices[lora_matrices_max];
  std::uint32_t count = 0;
  std::uint32_t in = 0;
};
/// What a column has beside a matrix, found once a step: a kernel that looked it up would wait for one load
/// after another.
struct lora_found {
  std::uint32_t adapters = 0;  ///< of the column
  std::uint32_t adapter = 0;
  std::uint32_t rank = 0;
  float factor = 0.0F;  ///< strength * scale, rounded
};
struct lora_find_args {
  lora_columns of;
  lora_tables tables;
  lora_found* found = nullptr;  ///< device, [columns of the step][places][lora_adapters_max]
};

/// What launch_lora() may use, do and prepare where columns are of several slots.
struct lora_sequel {
  lora_next next;
  const lora_found* found = nullptr;  ///< by launch_lora_find() for the step; null: looked up
};

}  // namespace orcd::kernels
