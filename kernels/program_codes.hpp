// What the kernels of decode programs have code for, each in a file of its own. One for all would be slower
// by some 4 %: every choice among formats is on the way from an input to its product, and code that is never
// reached spreads the rest.
#pragma once

#include "kernels/decode_program.hpp"

namespace orcd::kernels {

struct any_code {
  static constexpr program_needs has{~0U, true};
};
/// What llama.cpp's Q4_K_M consists of, rows that are no multiple of 256 included; and Q4_0 and Q8_0.
struct dense_code {
  static constexpr program_needs has{format_bit(packed_format::q4_0) | format_bit(packed_format::q5_0) |
                                         format_bit(packed_format::q8_0) | format_bit(packed_format::q4_k) |
                                         format_bit(packed_format::q5_k) | format_bit(packed_format::q6_k),
                                     false};
};
/// gpt-oss.
struct fp4_code {
  static constexpr program_needs has{format_bit(packed_format::mxfp4) | format_bit(packed_format::q8_0),
                                     true};
};

template <class Code>
struct program_kernels {
  static int launch(const decode_program& program, CUstream_st* stream);
};

}  // namespace orcd::kernels
