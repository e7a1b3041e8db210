// Products against f64, and the same bits for one column or many, on every level, for every thread count.
#include "kernels/host/matmul.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "kernels/host/embed.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using engine::ggml_type;
using kernels::matmul_args;

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

struct problem {
  ggml_type type;
  std::uint32_t rows, cols, columns;
  std::vector<std::byte> weights;
  std::vector<float> x;

  problem(ggml_type t, std::uint32_t r, std::uint32_t c, std::uint32_t m, std::uint64_t seed)
      : type(t), rows(r), cols(c), columns(m) {
    std::mt19937_64 random(seed);
    weights = test::random_rows(t, r, c, random);
    x = test::random_floats(std::size_t{m} * c, random);
  }
  [[nodiscard]] matmul_args args(float* y) const {
    return {.weights = {.data = weights.data(), .type = type, .rows = rows, .cols = cols},
            .x = x.data(),
            .y = y,
            .x_stride = cols,
            .y_stride = rows,
            .columns = columns};
  }
  [[nodiscard]] std::vector<float> run(kernels::host::thread_pool& pool) const {
    std::vector<float> y(std::size_t{rows} * columns, poison);
    const matmul_args product = args(y.data());
    kernels::host::matmul({&product, 1}, pool);
    return y;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Every product rounds its weight (two roundings of its terms), itself and at most cols/16 + 4 sums.
void check_against_f64(const problem& p, const std::vector<float>& y) {
  const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(p.type), p.cols);
  for (std::uint32_t r = 0; r < p.rows; ++r) {
    for (std::uint32_t m = 0; m < p.columns; ++m) {
      double want = 0.0, norm = 0.0;
      for (std::uint32_t c = 0; c < p.cols; ++c) {
        const test::reference_value w = test::decode_value(p.type, p.weights.data() + r * row_bytes, c);
        const double x = p.x[std::size_t{m} * p.cols + c];
        want += w.value * x;
        norm += w.magnitude * std::fabs(x);
      }
      const double bound = norm * (p.cols / 16 + 8) * 0x1p-24;
      const float got = y[std::size_t{m} * p.rows + r];
      BOOST_TEST_REQUIRE(std::fabs(got - want) <= bound, engine::traits_of(p.type).name
                                                             << ' ' << p.rows << 'x' << p.cols << " column "
                                                             << m << " row " << r << ": " << got << ", not "
                                                             << want << " within " << bound);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matmul)

BOOST_AUTO_TEST_CASE(agrees_with_f64_for_every_format_and_odd_sizes) {
  kernels::host::thread_pool pool(2);
  test::on_every_level([&](kernels::host::isa_level) {
    std::uint64_t seed = 100;
    for (const ggml_type type : test::every_type) {
      const std::uint32_t block = engine::traits_of(type).block_elems;
      for (const std::uint32_t columns : {1U, 2U, 3U, 5U, 33U}) {
        const problem p(type, 7 + columns, block == 1 ? 37 : 3 * block, columns, ++seed);
        check_against_f64(p, p.run(pool));
      }
      // Longer than the buffer of the tiled path, and not a multiple of it.
      const problem p(type, 5, block > 64 ? 1280 : 1088, 6, ++seed);
      check_against_f64(p, p.run(pool));
    }
  });
}

BOOST_AUTO_TEST_CASE(hand_computed_product) {
  const float w[2][3] = {{1.0F, 2.0F, 3.0F}, {-1.0F, 0.5F, 4.0F}};
  const float x[2][3] = {{1.0F, 1.0F, 1.0F}, {2.0F, -2.0F, 0.25F}};
  const float bias[2] = {10.0F, 20.0F};
  float y[2][2] = {{100.0F, 200.0F}, {300.0F, 400.0F}};
  kernels::host::thread_pool pool(1);
  matmul_args product = {.weights = {.data = reinterpret_cast<const std::byte*>(w),
                                     .type = ggml_type::f32,
                                     .rows = 2,
                                     .cols = 3},
                         .x = x[0],
                         .y = y[0],
                         .x_stride = 3,
                         .y_stride = 2,
                         .columns = 2,
                         .bias = bias,
                         .accumulate = true};
  kernels::host::matmul({&product, 1}, pool);
  BOOST_TEST(y[0][0] == 116.0F);
  BOOST_TEST(y[0][1] == 223.5F);
  BOOST_TEST(y[1][0] == 308.75F);
  BOOST_TEST(y[1][1] == 418.0F);
  product.accumulate = false;
  kernels::host::matmul({&product, 1}, pool);
  BOOST_TEST(y[1][1] == 18.0F);
}

BOOST_AUTO_TEST_CASE(same_bits_alone_batched_threaded_and_on_every_level) {
  for (const ggml_type type : test::every_type) {
    const std::uint32_t cols = engine::traits_of(type).block_elems == 1 ? 1104 : 1280;
    const problem batch(type, 67, cols, 37, 4242);
    std::vector<float> first;
    test::on_every_level([&](kernels::host::isa_level level) {
      for (const unsigned threads : {1U, 2U, 5U}) {
        kernels::host::thread_pool pool(threads);
        const std::vector<float> y = batch.run(pool);
        if (first.empty()) first = y;
        BOOST_TEST_REQUIRE(same_bits(first, y), engine::traits_of(type).name << " on " << isa_name(level)
                                                                             << " with " << threads
                                                                             << " threads");
      }
      kernels::host::thread_pool pool(1);
      for (std::uint32_t m = 0; m < batch.columns; m += 9) {
        problem alone = batch;
        alone.columns = 1;
        alone.x.assign(batch.x.begin() + m * cols, batch.x.begin() + (m + 1) * cols);
        const std::vector<float> want(first.begin() + m * batch.rows, first.begin() + (m + 1) * batch.rows);
        BOOST_TEST_REQUIRE(same_bits(want, alone.run(pool)), engine::traits_of(type).name << " column " << m
                                                                                          << " alone on "
                                                                                          << isa_name(level));
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(row_lists_gather_and_scatter) {
  const problem p(ggml_type::q4_0, 9, 64, 6, 5);
  kernels::host::thread_pool pool(2);
  const std::vector<float> plain = p.run(pool);
  const std::uint32_t from[] = {5, 0, 3};
  const std::uint32_t to[] = {1, 3, 0};
  std::vector<float> y(std::size_t{4} * p.rows, poison);
  matmul_args product = p.args(y.data());
  product.columns = 3;
  product.x_rows = from;
  product.y_rows = to;
  kernels::host::matmul({&product, 1}, pool);
  for (std::uint32_t i = 0; i < 3; ++i) {
    for (std::uint32_t r = 0; r < p.rows; ++r) {
      BOOST_TEST_REQUIRE(y[to[i] * p.rows + r] == plain[from[i] * p.rows + r]);
    }
  }
  for (std::uint32_t r = 0; r < p.rows; ++r)
    BOOST_TEST(std::isnan(y[2 * p.rows + r]), "row 2 was not asked for");
}

BOOST_AUTO_TEST_CASE(several_products_in_one_region_and_empty_ones) {
  const problem a(ggml_type::q8_0, 130, 64, 3, 6);
  const problem b(ggml_type::f16, 1, 33, 2, 7);
  kernels::host::thread_pool pool(3);
  std::vector<float> ya(std::size_t{a.rows} * a.columns, poison), yb(std::size_t{b.rows} * b.columns, poison);
  matmul_args products[] = {a.args(ya.data()), a.args(ya.data()), b.args(yb.data())};
  products[1].columns = 0;
  kernels::host::matmul(products, pool);
  BOOST_TEST(same_bits(ya, a.run(pool)));
  BOOST_TEST(same_bits(yb, b.run(pool)));
}

BOOST_AUTO_TEST_CASE(embedding_rows_are_gathered_from_any_format) {
  kernels::host::thread_pool pool(2);
  for (const ggml_type type : test::every_type) {
    const problem p(type, 6, 256, 1, 8);
    const std::int32_t tokens[] = {5, 0, 5, 2, 3};
    std::vector<float> out(std::size_t{5} * p.cols, poison);
    kernels::host::embed(
        {.table = p.args(nullptr).weights, .tokens = tokens, .out = out.data(), .columns = 5}, pool);
    const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(type), p.cols);
    for (int i = 0; i < 5; ++i) {
      std::vector<float> row(p.cols);
      kernels::host::dequantize_row(type, p.weights.data() + tokens[i] * row_bytes, p.cols, row.data());
      BOOST_TEST(std::memcmp(row.data(), &out[std::size_t(i) * p.cols], p.cols * sizeof(float)) == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
