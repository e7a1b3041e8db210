// Moves 8 x 8 matrices of 16-bit values between shared memory and the registers of a warp, in which lane
// (g, t) = (lane / 4, lane % 4) has values 2t and 2t + 1 of row g. Addresses are 32-bit ones, from
// shared_address_of(); those of the rows of matrix i come from lanes 8 i to 8 i + 7.
#pragma once

#include <cstdint>

namespace orcd::kernels {

__device__ inline void load_matrices(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&to)[4], std::uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(row)
               : "memory");
}
__device__ inline void store_matrices(std::uint32_t row, const uint4& words) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words.x),
               "r"(words.y), "r"(words.z), "r"(words.w)
               : "memory");
}

}  // namespace orcd::kernels
