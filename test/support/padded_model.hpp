// A model file with its widths padded by zeros, as trillim-quantize does it: the same function of its input.
#pragma once

#include <cstdint>

#include "test/support/gguf_writer.hpp"

namespace orcd::test {

/// Of the families llama and bitnet, without experts and fused matrices; blocks of zero bytes must be zeros,
/// or the type I2_S with widths of whole blocks. `embedding` and `ffn` are the widths after it; ORCD's keys
/// tell those before. Throws std::invalid_argument where a width is less than before, or no whole blocks.
void pad_widths(gguf_writer& model, std::uint64_t embedding, std::uint64_t ffn);

}  // namespace orcd::test
