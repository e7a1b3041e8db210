// Rows in another type than the file's, as device code reads them. Exact but for f16; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::kernels::host {

/// A row of TQ1_0, TQ2_0, I2_S, Q1_0 or Q2_0 as blocks of Q4_0 with the same values; of I2_S with a d of 1.
/// `cols` is a multiple of the type's block size; `out` has cols / 32 * 18 bytes.
void recode_as_q4_0(engine::ggml_type type, const std::byte* row, std::uint32_t cols, std::byte* out);

/// The codes of a row of TQ1_0, TQ2_0 or I2_S in I2_S's order, without any scale; `out` has cols / 4 bytes.
void recode_as_i2_s(engine::ggml_type type, const std::byte* row, std::uint32_t cols, std::byte* out);

/// A row of F32 rounded to F16; `out` has cols * 2 bytes. What is beyond F16 becomes infinite.
void recode_as_f16(engine::ggml_type type, const std::byte* row, std::uint32_t cols, std::byte* out);

}  // namespace orcd::kernels::host
