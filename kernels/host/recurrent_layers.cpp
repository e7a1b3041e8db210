// Recurrent layers, spread over threads; and what they keep of a step.
#include <algorithm>
#include <cstring>

#include "kernels/host/kernel_table.hpp"
#include "kernels/host/recurrent.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {
namespace {

/// The last of a run's rows, as many as are kept, at their positions.
void keep_rows(const recurrent_run& run, const float* rows, std::size_t stride, std::size_t width,
               std::uint32_t kept, float* to) {
  for (std::uint32_t t = run.count - std::min(run.count, kept); t < run.count; ++t) {
    std::memcpy(to + (run.position + t) % kept * width, rows + (run.column + t) * stride,
                width * sizeof(float));
  }
}

}  // namespace

void causal_conv(const causal_conv_args& args, thread_pool& pool) {
  constexpr std::uint32_t block = 16;
  const kernel_table& table = kernels();
  const std::uint32_t blocks = (args.channels + block - 1) / block;
  pool.run(args.run_count * blocks, 4, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) table.causal_conv_block(args, i / blocks, i % blocks * block);
  });
  for (std::uint32_t r = 0; r < args.run_count; ++r)
    keep_rows(args.runs[r], args.in, args.in_stride, args.channels, args.rows, args.runs[r].inputs);
}

void sigmoid_gate(const sigmoid_gate_args& args, thread_pool& pool) {
  const kernel_table& table = kernels();
  pool.run(args.rows, 1, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) table.sigmoid_gate_row(args, i);
  });
}

void recurrent_gates(const recurrent_gate_args& args, thread_pool& pool) {
  const kernel_table& table = kernels();
  pool.run(args.columns, 1, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) table.recurrent_gates_column(args, i);
  });
}

void recurrent_scan(const recurrent_args& args, thread_pool& pool) {
  const kernel_table& table = kernels();
  pool.run(args.run_count * args.value_heads, 1, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i)
      table.recurrent_head(args, i / args.value_heads, i % args.value_heads);
  });
  // Not before: heads that share keys read those of earlier steps.
  const std::size_t width = std::size_t{args.key_heads} * args.key_length;
  for (std::uint32_t r = 0; r < args.run_count; ++r)
    keep_rows(args.runs[r], args.keys, args.stride, width, args.rows, args.runs[r].keys);
}

}  // namespace orcd::kernels::host
