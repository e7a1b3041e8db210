// Products, attention and a router as models have them, for tests of the plans of decode programs.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/plan/decode_program_plan.hpp"

namespace orcd::test {

using gpu::decode_program_plan;
using kernels::packed_format;
using kernels::packed_matmul_args;

inline kernels::packed_matrix matrix(std::uint32_t rows, std::uint32_t cols,
                                     packed_format format = packed_format::q4_k) {
  kernels::packed_matrix w;
  w.data = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40);
  w.rows = rows;
  w.cols = cols;
  w.format = format;
  return w;
}

inline packed_matmul_args product(std::vector<kernels::packed_matrix> stack) {
  packed_matmul_args args;
  args.matrices = static_cast<std::uint32_t>(stack.size());
  for (std::size_t i = 0; i < stack.size(); ++i) args.w[i] = stack[i];
  args.columns = 1;
  args.x_stride = args.w[0].groups() * kernels::group_cols;
  return args;
}

inline packed_matmul_args output_product(std::uint32_t rows = 3072) {
  packed_matmul_args o = product({matrix(rows, 3072)});
  o.output = kernels::matmul_output::add;
  return o;
}

inline packed_matmul_args gate_up(std::uint32_t rows, std::uint32_t cols) {
  packed_matmul_args args = product({matrix(rows, cols), matrix(rows, cols)});
  args.output = kernels::matmul_output::swiglu;
  args.act_stride = rows;
  return args;
}

/// The same of four chosen experts.
inline packed_matmul_args of_experts(packed_matmul_args args) {
  static const std::int32_t chosen[4] = {};
  args.experts = chosen;
  args.columns = 4;
  return args;
}

inline kernels::decode_attention_args attention_of(std::uint32_t heads, std::uint32_t kv_heads,
                                                   std::uint32_t width) {
  kernels::decode_attention_args args;
  args.attend.heads = heads;
  args.attend.kv_heads = kv_heads;
  args.attend.columns = 1;
  args.attend.width = args.attend.padded_width = width;
  args.attend.cache.pages_per_slot = 9;
  return args;
}

/// A router's phase, as gpt-oss has it.
inline void add_route(decode_program_plan& plan) {
  plan.add_route({.width = 2880, .experts = 32, .used = 4, .columns = 1}, nullptr, nullptr);
}

}  // namespace orcd::test
