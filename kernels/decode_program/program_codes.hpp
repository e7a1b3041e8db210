// Sets of weight formats that the decode program is compiled for, each in a source file of its own. One
// kernel for all formats would be some 4 % slower: the choice among formats lies between an input and its
// product, and unused code spreads the rest over more of the instruction cache.
#pragma once

#include "kernels/decode_program/decode_program.hpp"

struct CUstream_st;

namespace orcd::kernels {

/// Every format, with experts: Mixtral, and all that the others leave.
struct any_code {
  static constexpr bool adapts = false;
  static constexpr program_needs has{~0U, true};
};
/// Q4_K_M files of llama.cpp, with the formats that they use for rows that are no multiple of 256; and Q4_0,
/// Q8_0.
struct dense_code {
  static constexpr bool adapts = false;
  static constexpr program_needs has{format_bit(packed_format::q4_0) | format_bit(packed_format::q5_0) |
                                         format_bit(packed_format::q8_0) | format_bit(packed_format::q4_k) |
                                         format_bit(packed_format::q5_k) | format_bit(packed_format::q6_k),
                                     false};
};
/// Files of two and three bits a value, Q2_K and Q3_K with the K formats that llama.cpp mixes in.
struct few_bit_code {
  static constexpr bool adapts = false;
  static constexpr program_needs has{format_bit(packed_format::q2_k) | format_bit(packed_format::q3_k) |
                                         format_bit(packed_format::q4_k) | format_bit(packed_format::q5_k) |
                                         format_bit(packed_format::q6_k),
                                     false};
};
/// IQ4_XS and IQ4_NL files, with the formats that llama.cpp mixes in.
struct table_code {
  static constexpr bool adapts = false;
  static constexpr program_needs has{format_bit(packed_format::iq4_nl) | format_bit(packed_format::iq4_xs) |
                                         format_bit(packed_format::q5_k) | format_bit(packed_format::q6_k) |
                                         format_bit(packed_format::q8_0),
                                     false};
};
/// gpt-oss: MXFP4 experts, Q8_0 elsewhere.
struct fp4_code {
  static constexpr bool adapts = false;
  static constexpr program_needs has{format_bit(packed_format::mxfp4) | format_bit(packed_format::q8_0),
                                     true};
};

/// Models with integer activations, one sequence: ternary layers, and an output head of a format that such
/// files have.
struct ternary_code {
  static constexpr bool adapts = false;
  static constexpr program_needs has{format_bit(packed_format::q4_0) | format_bit(packed_format::q5_0) |
                                         format_bit(packed_format::q8_0) | format_bit(packed_format::q6_k) |
                                         format_bit(packed_format::f16) | format_bit(packed_format::bf16),
                                     false, true};
};

/// A kernel with LoRA adapters, for one sequence: the others' code stays as small as it is. any_code has
/// none: it takes minutes to compile, for models that few run.
template <class Code>
struct adapted : Code {
  static constexpr bool adapts = true;
};

/// Whether a kernel with adapters has what a program needs.
[[nodiscard]] constexpr bool has_adapted_kernel(const program_needs& needs) {
  return needs.within(dense_code::has) || needs.within(fp4_code::has);
}

/// Kernels of programs of one sequence. A step that records its instants (decode_program::stamps) needs a
/// build with ORCD_PROGRAM_STAMPS, as those with benchmarks are; in others it is refused.
template <class Code>
struct program_kernels {
  static int launch(const decode_program& program, CUstream_st* stream);
};

/// Kernels of programs of several sequences, up to program_sequences_max.
template <class Code>
struct sequences_kernels {
  static int launch(const decode_program& program, CUstream_st* stream);
};

}  // namespace orcd::kernels
