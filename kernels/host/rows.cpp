// The kernels that work row by row, spread over threads.
#include "kernels/host/kernel_table.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {
namespace {

// Values of a row-wise kernel below which waking another thread costs more than it saves.
constexpr std::uint32_t values_per_piece = 4096;

template <class Args>
void each_row(thread_pool& pool, const Args& args, std::uint32_t rows, std::uint32_t width,
              void (*kernel)(const Args&, std::uint32_t)) {
  const std::uint32_t grain = values_per_piece / (width == 0 ? 1 : width) + 1;
  pool.run(rows, grain, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t row = begin; row < end; ++row) kernel(args, row);
  });
}

}  // namespace

void rms_norm(const rms_norm_args& args, thread_pool& pool) {
  each_row(pool, args, args.rows, args.heads * args.width, kernels().rms_norm_row);
}

void round_to_int8(const round_args& args, thread_pool& pool) {
  each_row(pool, args, args.rows, args.width, kernels().round_row);
}

void swiglu(const swiglu_args& args, thread_pool& pool) {
  each_row(pool, args, args.rows, args.width, kernels().swiglu_row);
}

void scale(const scale_args& args, thread_pool& pool) {
  each_row(pool, args, args.rows, args.width, kernels().scale_row);
}

void layer_norm(const layer_norm_args& args, thread_pool& pool) {
  each_row(pool, args, args.rows, args.heads * args.width, kernels().layer_norm_row);
}

void gelu(const gelu_args& args, thread_pool& pool) {
  each_row(pool, args, args.rows, args.width, kernels().gelu_row);
}

void moe_route(const moe_route_args& args, thread_pool& pool) {
  each_row(pool, args, args.columns, args.experts * args.used, kernels().moe_route_column);
}

void moe_combine(const moe_combine_args& args, thread_pool& pool) {
  each_row(pool, args, args.columns, args.used * args.width, kernels().moe_combine_column);
}

void attention(const attention_args& args, thread_pool& pool) {
  const kernel_table& table = kernels();
  pool.run(args.column_count * args.kv_heads, 1, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t i = begin; i < end; ++i) table.attend(args, i / args.kv_heads, i % args.kv_heads);
  });
}

}  // namespace orcd::kernels::host
