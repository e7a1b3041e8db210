// LoRA adapters of the sequence of a decode program (kernels/layer/lora.hpp has what they add). A product's
// adapters share its phase:
//
//   A x   one row of A is one block's, of those that have the fewest weights to multiply; the value goes to
//         all blocks as a flagged word while they still multiply
//   B     each block adds to its own outputs, between the fold and what is done with the sum
//
// So no hand-over comes to those that a step has without adapters. What a sequence has in each phase is
// looked up once, when it has changed (launch_describe_adapters), and comes to the blocks with the phase's
// description. Shared by host and device code.
#pragma once

#include <cstdint>

#include "kernels/layer/lora_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

/// Values of A x of one product that a block can take, of all adapters and matrices together.
inline constexpr std::uint32_t program_inner_max = 256;
/// Pairs of one product.
inline constexpr std::uint32_t program_pairs_max = 12;

/// The matrices of a phase beside which adapters may have a pair.
struct phase_matrices {
  lora_matrix matrices[lora_matrices_max];
  std::uint32_t count = 0;  ///< 0: none
  std::uint32_t in = 0;     ///< values of a row of A
};

/// A pair beside one of the phase's matrices. Places are counted in fours of lora_tables::values.
struct program_pair {
  std::uint32_t a = 0;
  std::uint32_t b = 0;
  float factor = 0.0F;
  std::uint16_t first = 0;  ///< its first value of A x among the phase's
  std::uint16_t rank = 0;
  std::uint32_t y_at = 0;  ///< the matrix' first value among the product's outputs
  std::uint32_t out = 0;   ///< its rows
};

/// What the sequence has in a phase: the pairs of each adapter in the slot's order.
struct alignas(16) phase_pairs {
  std::uint32_t count = 0;
  std::uint32_t values = 0;  ///< of A x
  std::uint32_t in = 0;
  std::uint32_t unused = 0;
  program_pair pairs[program_pairs_max];
};
static_assert(sizeof(phase_pairs) % 16 == 0);

struct program_adapters {
  const phase_pairs* phases = nullptr;  ///< device, one for each phase; null: a program without adapters
  const float* values = nullptr;        ///< lora_tables::values
  /// Device, flagged words, [2][program_inner_max], of even and of odd phases.
  std::uint64_t* inner = nullptr;
};

struct describe_adapters_args {
  const phase_matrices* matrices = nullptr;  ///< device, [phases]
  std::uint32_t phases = 0;
  const lora_slot* slot = nullptr;  ///< device: what the sequence has, at most program_pairs_max pairs and
                                    ///< program_inner_max ranks a phase
  lora_tables tables;
  phase_pairs* to = nullptr;  ///< device, [phases]
};

/// Writes what a sequence has in each phase. Returns the cudaError_t of the launch as an int; never
/// synchronizes.
[[nodiscard]] int launch_describe_adapters(const describe_adapters_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
