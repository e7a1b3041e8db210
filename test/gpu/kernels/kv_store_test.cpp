// What rope_store leaves in the pages, read back byte by byte: exactly the cached values of the definition,
// zeros in the padding, and nothing anywhere else.
#include <cuda_fp16.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/attention/kv_layout.hpp"
#include "kernels/attention/paged_attention.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/kv_reference.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

using engine::kv_type;

constexpr std::uint32_t kv_heads = 2;
constexpr std::uint32_t pages = 3;
constexpr std::uint32_t page = engine::kv_page_positions;

/// The pages of keys or of values of one type and width.
struct matrix {
  kv_type type;
  bool values;
  std::uint32_t padded;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] double half_at(const std::uint8_t* from, std::uint32_t index) const {
    __half h;
    std::memcpy(&h, from + 2 * std::size_t{index}, sizeof h);
    return __half2float(h);
  }
  [[nodiscard]] double value(std::uint32_t id, std::uint32_t head, std::uint32_t place,
                             std::uint32_t d) const {
    const std::uint8_t* from =
        bytes.data() + (std::size_t{id} * kv_heads + head) * page * engine::kv_row_bytes(type, padded);
    const std::uint32_t row = values ? d : place;
    const std::uint32_t column = values ? place : d;
    const std::uint32_t columns = values ? page : padded;
    if (type == kv_type::f16) return half_at(from, row * columns + column);
    if (type == kv_type::bf16) {
      std::uint16_t bits;
      std::memcpy(&bits, from + 2 * (std::size_t{row} * columns + column), sizeof bits);
      const std::uint32_t wide = std::uint32_t{bits} << 16;
      float v;
      std::memcpy(&v, &wide, sizeof v);
      return v;
    }
    const int quant = from[kernels::kv_quant_place(row, column, columns)] - int{kernels::kv_quant_bias};
    const std::uint32_t scale =
        values ? kernels::kv_value_scale_place(place, d / 32) : kernels::kv_key_scale_place(place, d / 32);
    return as_half(quant * half_at(from + std::size_t{page} * padded, scale));
  }
};

/// Heads of very different sizes, some beyond f16 and some all zero.
std::vector<float> rows_of(std::uint32_t columns, std::uint32_t width, std::uint64_t seed) {
  constexpr float sizes[] = {1e-42F, 1e-9F, 2e-7F, 1e-5F, 1e-3F, 0.1F, 1.0F, 300.0F, 6e4F, 7e4F, 1e30F, 0.0F};
  std::mt19937_64 random(seed);
  std::vector<float> out(std::size_t{columns} * 3 * kv_heads * width);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = random_unit(random) * 2.0F * sizes[(i / 37 + i / width) % std::size(sizes)];
  }
  return out;
}

void check(kv_type keys, kv_type values, std::uint32_t width) {
  const std::uint32_t padded = kernels::padded_head_width(width);
  const std::int32_t positions[] = {0, 1, 7, 8, 15, 16, 31, 32, 200, 255, 256, 300, 511, -1};
  constexpr std::uint32_t columns = std::size(positions);
  const std::vector<float> rows = rows_of(columns, width, width);
  const device_array<float> qkv{std::span<const float>(rows)};
  std::vector<kernels::step_token> steps;
  for (const std::int32_t position : positions) steps.push_back({0, position, 0});
  const device_array<kernels::step_token> device_steps{std::span<const kernels::step_token>(steps)};
  const std::vector<std::int32_t> table{2, 0};
  const device_array<std::int32_t> page_table{std::span<const std::int32_t>(table)};
  const std::size_t cache_rows = std::size_t{pages} * kv_heads * page;
  const device_array<std::uint8_t> k(cache_rows * engine::kv_row_bytes(keys, padded));
  const device_array<std::uint8_t> v(cache_rows * engine::kv_row_bytes(values, padded));
  const device_array<__half> q(std::size_t{columns} * kv_heads * padded);
  kernels::rope_store_args a;
  a.qkv = qkv.data();
  a.stride = 3 * kv_heads * width;
  a.steps = device_steps.data();
  a.columns = columns;
  a.heads = kv_heads;
  a.kv_heads = kv_heads;
  a.width = width;
  a.padded_width = padded;
  a.q = q.data();
  a.cache = {k.data(), v.data(), page_table.data(), 2, keys, values};
  BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(a, nullptr), 0);

  for (const bool is_v : {false, true}) {
    const matrix m{is_v ? values : keys, is_v, padded, (is_v ? v : k).read()};
    std::size_t written = 0;
    for (std::uint32_t c = 0; c + 1 < columns; ++c) {
      const auto position = static_cast<std::uint32_t>(positions[c]);
      for (std::uint32_t head = 0; head < kv_heads; ++head) {
        const std::size_t at =
            std::size_t{c} * a.stride + ((is_v ? 2 : 1) * kv_heads + head) * std::size_t{width};
        const auto want = cached_row(m.type, std::span(rows).subspan(at, width));
        for (std::uint32_t d = 0; d < padded; ++d) {
          const double got =
              m.value(static_cast<std::uint32_t>(table[position / page]), head, position % page, d);
          const double wanted = d < width ? want[d] : 0.0;
          BOOST_TEST_REQUIRE(got == wanted, engine::to_string(m.type)
                                                << (is_v ? " value " : " key ") << width << " position "
                                                << position << " dimension " << d << " of "
                                                << rows[at + std::min(d, width - 1)]);
        }
        written += engine::kv_row_bytes(m.type, padded);
      }
    }
    // Every other byte is as it was.
    std::size_t changed = 0;
    for (const std::uint8_t byte : m.bytes) changed += byte != 0xFF;
    BOOST_TEST(changed <= written);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kv_store)

BOOST_AUTO_TEST_CASE(pages_hold_the_definition_exactly) {
  for (const kv_type keys : device_kv_types) {
    for (const kv_type values : device_kv_types) {
      for (const std::uint32_t width : {16U, 32U, 64U, 80U, 96U, 128U, 160U, 256U, 300U, 512U})
        check(keys, values, width);
    }
  }
}

// Attention multiplies positions that a token does not see by zero: what wrong drafts have left there must
// not be a NaN or an infinity.
BOOST_AUTO_TEST_CASE(nothing_that_is_stored_is_not_finite) {
  constexpr std::uint32_t width = 64;
  constexpr float odd[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                           1.0F, -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  std::vector<float> row(std::size_t{3} * kv_heads * width);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = odd[i % std::size(odd)];
  const device_array<float> qkv{std::span<const float>(row)};
  const std::vector<kernels::step_token> steps{{0, 5, 0}};
  const device_array<kernels::step_token> device_steps{std::span<const kernels::step_token>(steps)};
  const std::vector<std::int32_t> table{0};
  const device_array<std::int32_t> page_table{std::span<const std::int32_t>(table)};
  const device_array<__half> q(std::size_t{kv_heads} * width);
  for (const kv_type type : device_kv_types) {
    const std::size_t bytes = std::size_t{kv_heads} * page * engine::kv_row_bytes(type, width);
    const device_array<std::uint8_t> k(bytes);
    const device_array<std::uint8_t> v(bytes);
    kernels::rope_store_args a;
    a.qkv = qkv.data();
    a.stride = 3 * kv_heads * width;
    a.steps = device_steps.data();
    a.columns = 1;
    a.heads = a.kv_heads = kv_heads;
    a.width = a.padded_width = width;
    a.q = q.data();
    a.cache = {k.data(), v.data(), page_table.data(), 1, type, type};
    BOOST_REQUIRE_EQUAL(kernels::launch_rope_store(a, nullptr), 0);
    for (const bool is_v : {false, true}) {
      const matrix m{type, is_v, width, (is_v ? v : k).read()};
      for (std::uint32_t i = 0; i < kv_heads * width; ++i) {
        BOOST_TEST(std::isfinite(m.value(0, i / width, 5, i % width)),
                   engine::to_string(type) << (is_v ? " value " : " key ") << i);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
