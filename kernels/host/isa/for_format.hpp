// Calls a function template with the decoder of a block format.
#pragma once

#include "engine/gguf/ggml_type.hpp"
#include "kernels/host/isa/block_formats.hpp"
#include "kernels/host/isa/grid_formats.hpp"

namespace orcd::kernels::host::ORCD_ISA {

template <class Visitor>
ORCD_INLINE void for_format(engine::ggml_type type, Visitor visit) {
  using engine::ggml_type;
  switch (type) {
    case ggml_type::f32: return visit(f32_format{});
    case ggml_type::f16: return visit(f16_format{});
    case ggml_type::bf16: return visit(bf16_format{});
    case ggml_type::q4_0: return visit(q4_0_format{});
    case ggml_type::q4_1: return visit(q4_1_format{});
    case ggml_type::q5_0: return visit(q5_0_format{});
    case ggml_type::q5_1: return visit(q5_1_format{});
    case ggml_type::q8_0: return visit(q8_0_format{});
    case ggml_type::q2_k: return visit(q2_k_format{});
    case ggml_type::q3_k: return visit(q3_k_format{});
    case ggml_type::q4_k: return visit(q4_k_format{});
    case ggml_type::q5_k: return visit(q5_k_format{});
    case ggml_type::q6_k: return visit(q6_k_format{});
    case ggml_type::iq4_nl: return visit(iq4_nl_format{});
    case ggml_type::iq4_xs: return visit(iq4_xs_format{});
    case ggml_type::iq3_s: return visit(iq3_s_format{});
    case ggml_type::iq3_xxs: return visit(iq3_xxs_format{});
    case ggml_type::iq2_s: return visit(iq2_s_format{});
    case ggml_type::iq2_xs: return visit(iq2_xs_format{});
    case ggml_type::iq2_xxs: return visit(iq2_xxs_format{});
    case ggml_type::mxfp4: return visit(mxfp4_format{});
    case ggml_type::nvfp4: return visit(nvfp4_format{});
    case ggml_type::tq1_0: return visit(tq1_0_format{});
    case ggml_type::tq2_0: return visit(tq2_0_format{});
    case ggml_type::i2_s: return visit(i2_s_format{});
    case ggml_type::q1_0: return visit(q1_0_format{});
    case ggml_type::q2_0: return visit(q2_0_format{});
  }
}

/// The values of a row that fill no whole block: up to 15, in the plain formats alone (the file format
/// demands whole blocks of the others). Missing lanes are zero.
template <class Format>
ORCD_INLINE float_lanes decode_tail(const std::byte* row, std::uint32_t cols) {
  alignas(64) std::byte block[Format::bytes] = {};
  constexpr std::uint32_t value_bytes = Format::bytes / Format::elems;
  const std::uint32_t whole = cols / Format::elems * Format::elems;
  __builtin_memcpy(block, row + std::size_t{whole} * value_bytes, std::size_t{cols - whole} * value_bytes);
  float_lanes tail = splat(0.0F);
  Format::decode(
      block, [&](int, float_lanes v) __attribute__((always_inline)) { tail = v; });
  return tail;
}

ORCD_INLINE float_lanes load_tail(const float* from, std::uint32_t count) {
  alignas(64) float values[lane_count] = {};
  __builtin_memcpy(values, from, count * sizeof(float));
  return load(values);
}

ORCD_INLINE void store_tail(float* to, float_lanes v, std::uint32_t count) {
  alignas(64) float values[lane_count];
  store(values, v);
  __builtin_memcpy(to, values, count * sizeof(float));
}

}  // namespace orcd::kernels::host::ORCD_ISA
