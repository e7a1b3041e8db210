// Random tensor payloads of every supported type whose decoded values have a given spread.
#pragma once

#include <cstdint>
#include <random>

#include "engine/gguf/ggml_type.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::test {

/// IEEE half bits nearest to `value` (ties to even); finite inputs beyond the range become infinity.
[[nodiscard]] std::uint16_t to_half(float value) noexcept;

/// Uniform in [-1, 1), the same numbers with every standard library.
[[nodiscard]] float random_unit(std::mt19937_64& engine);

/// `elements` random values of standard deviation about `spread`, encoded as `type`; `elements` is a
/// multiple of the block size. Every field of a block varies; scales are finite.
[[nodiscard]] bytes random_payload(engine::ggml_type type, std::uint64_t elements, float spread,
                                   std::mt19937_64& engine);

}  // namespace orcd::test
