// References for the kernel tests: every block format decoded value by value in f64 straight from the
// bytes, sharing nothing with the kernels, and random data with a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "engine/gguf/ggml_type.hpp"
#include "kernels/host/kernel_table.hpp"

namespace orcd::test {

/// A value and the sum of the magnitudes of the terms it was made of: rounding errors are relative to it.
struct reference_value {
  double value = 0.0;
  double magnitude = 0.0;
};

/// Value `index` of a row, without the factor behind a tensor.
[[nodiscard]] reference_value decode_value(engine::ggml_type type, const std::byte* row, std::uint64_t index);

/// IEEE half as f64.
[[nodiscard]] double half_value(std::uint16_t bits);

/// `rows` rows of random blocks: every bit of the quantized fields random, scales finite and moderate.
[[nodiscard]] std::vector<std::byte> random_rows(engine::ggml_type type, std::uint32_t rows,
                                                 std::uint32_t cols, std::mt19937_64& random);

/// Uniform in [-1, 1).
[[nodiscard]] std::vector<float> random_floats(std::size_t count, std::mt19937_64& random);

inline constexpr engine::ggml_type every_type[] = {
    engine::ggml_type::f32,    engine::ggml_type::f16,     engine::ggml_type::bf16,
    engine::ggml_type::q4_0,   engine::ggml_type::q4_1,    engine::ggml_type::q5_0,
    engine::ggml_type::q5_1,   engine::ggml_type::q8_0,    engine::ggml_type::q4_k,
    engine::ggml_type::q5_k,   engine::ggml_type::q6_k,    engine::ggml_type::mxfp4,
    engine::ggml_type::tq1_0,  engine::ggml_type::tq2_0,   engine::ggml_type::i2_s,
    engine::ggml_type::q1_0,   engine::ggml_type::q2_0,    engine::ggml_type::q2_k,
    engine::ggml_type::q3_k,   engine::ggml_type::iq4_nl,  engine::ggml_type::iq4_xs,
    engine::ggml_type::iq3_s,  engine::ggml_type::iq3_xxs, engine::ggml_type::iq2_s,
    engine::ggml_type::iq2_xs, engine::ggml_type::iq2_xxs, engine::ggml_type::nvfp4,
};

/// Runs `body` with the kernels of each level that this processor has, then restores the choice.
void on_every_level(const std::function<void(kernels::host::isa_level)>& body);
/// The same with those that differ in the products of int8 alone.
void on_every_product_level(const std::function<void(kernels::host::isa_level)>& body);

}  // namespace orcd::test
