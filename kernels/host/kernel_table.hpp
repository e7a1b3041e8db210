// The kernels that are compiled once per x86 level, and the choice among them, made once per process.
// Every level gives the same bits; only the speed differs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/host/attention.hpp"
#include "kernels/host/gelu.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/matmul_args.hpp"
#include "kernels/host/moe.hpp"
#include "kernels/host/recurrent.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/scale.hpp"
#include "kernels/host/swiglu.hpp"
#include "kernels/host/ternary.hpp"

namespace orcd::kernels::host {

/// The levels of x86-64, and two with instructions for products of int8 (AVX-VNNI, AVX512-VNNI).
enum class isa_level { baseline, v3, v3_vnni, v4, v4_vnni };

/// One piece of work each; host::matmul and the others spread the pieces over threads.
struct kernel_table {
  isa_level level;
  void (*dequantize_row)(engine::ggml_type type, const std::byte* row, std::uint32_t cols, float* out);
  void (*matmul_rows)(const matmul_args& args, std::uint32_t row_begin, std::uint32_t row_end);
  void (*attend)(const attention_args& args, std::uint32_t column, std::uint32_t kv_head);
  void (*rms_norm_row)(const rms_norm_args& args, std::uint32_t row);
  void (*swiglu_row)(const swiglu_args& args, std::uint32_t row);
  void (*moe_route_column)(const moe_route_args& args, std::uint32_t column);
  void (*moe_combine_column)(const moe_combine_args& args, std::uint32_t column);
  void (*layer_norm_row)(const layer_norm_args& args, std::uint32_t row);
  void (*gelu_row)(const gelu_args& args, std::uint32_t row);
  void (*scale_row)(const scale_args& args, std::uint32_t row);
  void (*round_row)(const round_args& args, std::uint32_t row);
  void (*causal_conv_block)(const causal_conv_args& args, std::uint32_t run, std::uint32_t first_channel);
  void (*sigmoid_gate_row)(const sigmoid_gate_args& args, std::uint32_t row);
  void (*recurrent_gates_column)(const recurrent_gate_args& args, std::uint32_t column);
  void (*recurrent_head)(const recurrent_args& args, std::uint32_t run, std::uint32_t head);
  void (*ternary_rows)(const matmul_args& args, std::uint32_t row_begin, std::uint32_t row_end);
};

/// The table in use: the highest level that the processor has, or the one that the environment variable
/// WORKER_ORCD_HOST_ISA names (baseline, v3, v3-vnni, v4, v4-vnni) if the processor has it. Others are
/// ignored.
[[nodiscard]] const kernel_table& kernels();

/// The table of a level; null where this build or this processor lacks it.
[[nodiscard]] const kernel_table* kernels_of(isa_level level) noexcept;

/// For tests: makes `table` the one in use. Not while a kernel runs.
void use_kernels(const kernel_table& table) noexcept;

[[nodiscard]] const char* isa_name(isa_level level) noexcept;

#ifdef ORCD_ISA
namespace ORCD_ISA {
void dequantize_row(engine::ggml_type type, const std::byte* row, std::uint32_t cols, float* out);
void matmul_rows(const matmul_args& args, std::uint32_t row_begin, std::uint32_t row_end);
void attend(const attention_args& args, std::uint32_t column, std::uint32_t kv_head);
void rms_norm_row(const rms_norm_args& args, std::uint32_t row);
void swiglu_row(const swiglu_args& args, std::uint32_t row);
void moe_route_column(const moe_route_args& args, std::uint32_t column);
void moe_combine_column(const moe_combine_args& args, std::uint32_t column);
void layer_norm_row(const layer_norm_args& args, std::uint32_t row);
void gelu_row(const gelu_args& args, std::uint32_t row);
void scale_row(const scale_args& args, std::uint32_t row);
void round_row(const round_args& args, std::uint32_t row);
void causal_conv_block(const causal_conv_args& args, std::uint32_t run, std::uint32_t first_channel);
void sigmoid_gate_row(const sigmoid_gate_args& args, std::uint32_t row);
void recurrent_gates_column(const recurrent_gate_args& args, std::uint32_t column);
void recurrent_head(const recurrent_args& args, std::uint32_t run, std::uint32_t head);
void ternary_rows(const matmul_args& args, std::uint32_t row_begin, std::uint32_t row_end);
}  // namespace ORCD_ISA
#endif

}  // namespace orcd::kernels::host
