#include "kernels/attention.hpp"
#include "kernels/host/half.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::kernels::host {
namespace {

void store_heads(const float* from, std::uint16_t* cache, std::uint32_t heads, std::uint32_t width,
                 std::uint32_t capacity, std::uint32_t position) {
  for (std::uint32_t head = 0; head < heads; ++head) {
    std::uint16_t* to = cache + (std::size_t{head} * capacity + position) * width;
    for (std::uint32_t i = 0; i < width; ++i) to[i] = float_to_half(from[std::size_t{head} * width + i]);
  }
}

}  // namespace

void store_kv(const store_kv_args& args, thread_pool& pool) {
  pool.run(args.column_count, 4, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t c = begin; c < end; ++c) {
      const attention_column& at = args.columns[c];
      store_heads(args.k + c * args.stride, at.keys, args.kv_heads, args.key_width, args.capacity,
                  at.position);
      store_heads(args.v + c * args.stride, at.values, args.kv_heads, args.value_width, args.capacity,
                  at.position);
    }
  });
}

}  // namespace orcd::kernels::host
