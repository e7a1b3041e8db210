// The tensor cores of Hopper for a warpgroup with operands in shared memory that are no rows of 128 bytes:
// matrices of 8 rows by 16 bytes (eight values of k), each 128 bytes that follow one another, with no
// swizzle.
#pragma once

#include "kernels/product/wgmma.cuh"

namespace orcd::kernels {

inline constexpr std::uint32_t matrix_bytes = 128;

/// An operand that begins at `address`: the next eight values of k are in the next matrix, the next eight
/// rows `next_rows` bytes behind. Add matrix_step for each matrix that a multiplication begins further
/// behind.
__device__ inline std::uint64_t operand_of_matrices(std::uint32_t address, std::uint32_t next_rows) {
  return static_cast<std::uint64_t>(next_rows / 16) << 32 |
         static_cast<std::uint64_t>(matrix_bytes / 16) << 16 | (address & 0x3FFFFU) >> 4;
}
inline constexpr std::uint64_t matrix_step = matrix_bytes / 16;

/// acc = A * B + (keep ? acc : 0) with 64 rows of A, 32 columns of B and 16 of k; acc as that of wgmma<32>().
__device__ inline void wgmma_shared(float (&acc)[16], std::uint64_t a, std::uint64_t b, bool keep) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, p, 1, 1, 0, 0; }"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),
        "+f"(acc[14]), "+f"(acc[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(keep))
      : "memory");
}

}  // namespace orcd::kernels
