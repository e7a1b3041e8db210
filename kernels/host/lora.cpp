#include "kernels/host/lora.hpp"

#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {
namespace {

weight_matrix floats(const float* values, std::uint32_t rows, std::uint32_t cols, float factor) {
  return {.data = reinterpret_cast<const std::byte*>(values), .rows = rows, .cols = cols, .factor = factor};
}

/// inner = A x
void go_in(const lora_args& args, std::span<matmul_args> products, thread_pool& pool) {
  for (std::size_t i = 0; i < args.groups.size(); ++i) {
    const lora_group& group = args.groups[i];
    products[i] = {.weights = floats(group.a, group.rank, args.in, 1.0F),
                   .x = args.x,
                   .y = args.inner + group.first * args.inner_stride,
                   .x_stride = args.x_stride,
                   .y_stride = args.inner_stride,
                   .columns = group.count,
                   .x_rows = args.x_rows + group.first};
  }
  matmul(products, pool);
}

/// y += factor * (B inner)
void go_out(const lora_args& args, std::span<matmul_args> products, thread_pool& pool) {
  for (std::size_t i = 0; i < args.groups.size(); ++i) {
    const lora_group& group = args.groups[i];
    products[i] = {.weights = floats(group.b, args.out, group.rank, group.factor),
                   .x = args.inner + group.first * args.inner_stride,
                   .y = args.y,
                   .x_stride = args.inner_stride,
                   .y_stride = args.y_stride,
                   .columns = group.count,
                   .y_rows = args.y_rows + group.first,
                   .accumulate = true};
  }
  matmul(products, pool);
}

}  // namespace

void lora(const lora_args& args, std::span<matmul_args> scratch, thread_pool& pool) {
  const auto products = scratch.first(args.groups.size());
  go_in(args, products, pool);
  go_out(args, products, pool);
}

void lora_rows(const lora_args& args, std::span<matmul_args> scratch, thread_pool& pool) {
  for (const lora_group& group : args.groups) {
    for (std::uint32_t c = group.first; c < group.first + group.count; ++c) {
      const auto token = static_cast<std::size_t>(args.tokens[args.x_rows[c]]);
      float* inner = args.inner + c * args.inner_stride;
      for (std::uint32_t r = 0; r < group.rank; ++r) inner[r] = group.a[std::size_t{r} * args.in + token];
    }
  }
  go_out(args, scratch.first(args.groups.size()), pool);
}

}  // namespace orcd::kernels::host
