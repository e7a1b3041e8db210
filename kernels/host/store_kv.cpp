// The stored form of K and V; the definition is in engine/model/kv_type.hpp.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/host/attention.hpp"
#include "kernels/host/half.hpp"
#include "kernels/host/thread_pool.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host {
namespace {

using engine::kv_type;

half_bytes half_of(float value) {
  const std::uint16_t bits = float_to_half(value);
  return {{static_cast<std::uint8_t>(bits), static_cast<std::uint8_t>(bits >> 8)}};
}

block_q8_0 quantize(const float* from, std::uint32_t count) {
  float values[engine::kv_block_values] = {};
  float largest = 0.0F;
  for (std::uint32_t i = 0; i < count; ++i) {
    values[i] = std::clamp(from[i], -engine::kv_half_limit, engine::kv_half_limit);
    largest = std::max(largest, std::fabs(values[i]));
  }
  const float d = largest / 127.0F;
  block_q8_0 block{.d = half_of(std::min(d, engine::kv_scale_limit)), .qs = {}};
  if ((block.d.b[0] | block.d.b[1]) == 0) return block;
  const float inverse = 1.0F / d;
  for (std::uint32_t i = 0; i < count; ++i) {
    block.qs[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(std::round(values[i] * inverse)));
  }
  return block;
}

void store_row(kv_type type, const float* from, std::uint32_t width, std::byte* to) {
  switch (type) {
    case kv_type::f16:
      for (std::uint32_t i = 0; i < width; ++i) {
        const half_bytes half = half_of(std::clamp(from[i], -engine::kv_half_limit, engine::kv_half_limit));
        std::memcpy(to + std::size_t{2} * i, &half, sizeof half);
      }
      return;
    case kv_type::bf16:
      for (std::uint32_t i = 0; i < width; ++i) {
        const std::uint16_t bits =
            float_to_bfloat(std::clamp(from[i], -engine::kv_bfloat_limit, engine::kv_bfloat_limit));
        std::memcpy(to + std::size_t{2} * i, &bits, sizeof bits);
      }
      return;
    case kv_type::q8_0:
      for (std::uint32_t i = 0; i < width; i += engine::kv_block_values) {
        const block_q8_0 block = quantize(from + i, std::min(engine::kv_block_values, width - i));
        std::memcpy(to, &block, sizeof block);
        to += sizeof block;
      }
      return;
    case kv_type::f32:
      for (std::uint32_t i = 0; i < width; ++i) {
        constexpr float most = std::numeric_limits<float>::max();
        const float value = std::clamp(from[i], -most, most);
        std::memcpy(to + sizeof(float) * i, &value, sizeof value);
      }
      return;
  }
}

/// The heads of one token.
void store_heads(kv_type type, const float* from, std::byte* cache, const store_kv_args& args,
                 std::uint32_t width, const attention_column& at) {
  const std::uint64_t row_bytes = engine::kv_row_bytes(type, width);
  const std::int32_t page = at.pages[at.position / engine::kv_page_positions];
  for (std::uint32_t head = 0; head < args.kv_heads; ++head) {
    const std::uint64_t row =
        attention_first_row(page, args.kv_heads, head) + at.position % engine::kv_page_positions;
    store_row(type, from + std::size_t{head} * width, width, cache + row * row_bytes);
  }
}

}  // namespace

void store_kv(const store_kv_args& args, thread_pool& pool) {
  pool.run(args.column_count, 4, [&](std::uint32_t begin, std::uint32_t end) {
    for (std::uint32_t c = begin; c < end; ++c) {
      const attention_column& at = args.columns[c];
      store_heads(args.types.keys, args.k + c * args.stride, args.cache.keys, args, args.key_width, at);
      store_heads(args.types.values, args.v + c * args.stride, args.cache.values, args, args.value_width, at);
    }
  });
}

}  // namespace orcd::kernels::host
