// Products of ternary weights with int8 activations: against stored vectors (test/data/ternary), and on every
// x86 level against sums in 64 bits, of random and of extreme inputs.
#include "kernels/host/ternary.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>

#include "kernels/host/matmul.hpp"
#include "kernels/host/ternary_scan.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using engine::ggml_type;

constexpr ggml_type ternary_types[] = {ggml_type::i2_s, ggml_type::tq1_0, ggml_type::tq2_0};

template <class T>
std::vector<T> stored(const std::string& name) {
  std::ifstream in(std::string(ORCD_TEST_DATA) + "/ternary/" + name, std::ios::binary);
  const std::vector<char> raw{std::istreambuf_iterator<char>(in), {}};
  BOOST_REQUIRE_MESSAGE(!raw.empty() && raw.size() % sizeof(T) == 0, name);
  std::vector<T> values(raw.size() / sizeof(T));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

struct rounded_rows {
  rounded_rows(std::uint32_t rows, std::uint32_t width)
      : values(std::size_t{rows} * width), scales(rows), sums(rows) {}
  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
  [[nodiscard]] kernels::int8_rows view() const { return {values.data(), scales.data(), sums.data()}; }
};

rounded_rows round_rows(const std::vector<float>& x, std::uint32_t rows) {
  const auto width = static_cast<std::uint32_t>(x.size() / rows);
  rounded_rows out(rows, width);
  kernels::host::thread_pool pool(2);
  kernels::host::round_to_int8({.x = x.data(),
                                .values = out.values.data(),
                                .scales = out.scales.data(),
                                .sums = out.sums.data(),
                                .x_stride = width,
                                .rows = rows,
                                .width = width},
                               pool);
  return out;
}

/// Rows of weights with one scale, and int8 activations.
struct problem {
  ggml_type type;
  std::uint32_t rows, cols, columns;
  std::vector<std::byte> weights;
  rounded_rows x;

  problem(ggml_type t, std::uint32_t r, std::uint32_t c, std::uint32_t n, std::uint64_t seed)
      : type(t), rows(r), cols(c), columns(n), x(n, c) {
    std::mt19937_64 random(seed);
    weights = test::random_rows(type, rows, cols, random);
    for (std::int8_t& v : x.values) v = static_cast<std::int8_t>(random() >> 40);
    for (float& s : x.scales) s = static_cast<float>(1 + random() % 1000) / 7.0F;
    sum_up();
  }
  void sum_up() {
    for (std::uint32_t m = 0; m < columns; ++m) {
      x.sums[m] = 0;
      for (std::uint32_t i = 0; i < cols; ++i) x.sums[m] += x.values[std::size_t{m} * cols + i];
    }
  }
  void set_scale() {
    const auto& t = engine::traits_of(type);
    if (type == ggml_type::i2_s) return;
    const std::uint16_t one = 0x3c00;
    for (std::size_t at = t.block_bytes; at <= weights.size(); at += t.block_bytes)
      std::memcpy(weights.data() + at - 2, &one, 2);
  }
  [[nodiscard]] kernels::matmul_args args(float* y) const {
    return {
        .weights = {.data = weights.data(), .type = type, .rows = rows, .cols = cols, .code_scale = 0.37F},
        .ints = x.view(),
        .y = y,
        .x_stride = cols,
        .y_stride = rows,
        .columns = columns};
  }
  [[nodiscard]] std::vector<float> run(unsigned threads) const {
    std::vector<float> y(std::size_t{rows} * columns, -77.0F);
    const kernels::matmul_args product = args(y.data());
    kernels::host::thread_pool pool(threads);
    kernels::host::matmul({&product, 1}, pool);
    return y;
  }
  /// Codes as the f64 reference decodes them, with scales of 1, and sums in 64 bits.
  [[nodiscard]] std::vector<float> expected() const {
    const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(type), cols);
    std::vector<float> y(std::size_t{rows} * columns);
    std::vector<std::int64_t> codes(cols);
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t i = 0; i < cols; ++i)
        codes[i] =
            static_cast<std::int64_t>(test::decode_value(type, weights.data() + r * row_bytes, i).value);
      for (std::uint32_t m = 0; m < columns; ++m) {
        std::int64_t sum = 0;
        for (std::uint32_t i = 0; i < cols; ++i) sum += codes[i] * x.values[std::size_t{m} * cols + i];
        const float scaled = static_cast<float>(sum) / x.scales[m];
        y[std::size_t{m} * rows + r] = scaled * 0.37F;
      }
    }
    return y;
  }
};

void check(const problem& p, const std::string& what) {
  const std::vector<float> want = p.expected();
  test::on_every_product_level([&](kernels::host::isa_level level) {
    BOOST_TEST_REQUIRE(same_bits(want, p.run(2)), engine::traits_of(p.type).name
                                                      << ", " << what << ", on " << isa_name(level) << ", "
                                                      << p.rows << " x " << p.cols << ", " << p.columns
                                                      << " columns");
  });
}

struct stored_form {
  ggml_type type;
  const char* file;
};
constexpr stored_form stored_forms[] = {
    {ggml_type::i2_s, "i2_s_x86.bin"}, {ggml_type::tq1_0, "tq1_0.bin"}, {ggml_type::tq2_0, "tq2_0.bin"}};

}  // namespace

BOOST_AUTO_TEST_SUITE(ternary)

BOOST_AUTO_TEST_CASE(stored_matrices_decode_to_their_codes) {
  constexpr std::uint32_t rows = 8, cols = 512;
  const auto codes = stored<std::int8_t>("codes_i8.bin");
  std::vector<float> want(codes.begin(), codes.end());
  for (float& v : want) v *= 0.6875F;
  for (const stored_form& form : stored_forms) {
    const auto raw = stored<std::byte>(form.file);
    kernels::weight_matrix matrix{.data = raw.data(), .type = form.type, .rows = rows, .cols = cols};
    if (form.type == ggml_type::i2_s)
      std::memcpy(&matrix.factor, raw.data() + raw.size() - 32, sizeof(float));
    test::on_every_level([&](kernels::host::isa_level) {
      std::vector<float> got(want.size());
      for (std::uint32_t r = 0; r < rows; ++r)
        kernels::host::dequantize_row(matrix, r, got.data() + std::size_t{r} * cols);
      for (std::size_t i = 0; i < got.size(); ++i)
        BOOST_TEST_REQUIRE(got[i] == want[i], form.file << " value " << i);
    });
  }
}

BOOST_AUTO_TEST_CASE(stored_activations_round_to_their_integers) {
  test::on_every_level([](kernels::host::isa_level) {
    const rounded_rows got = round_rows(stored<float>("act_f32.bin"), 8);
    BOOST_TEST(same_bits(got.values, stored<std::int8_t>("act_q_i8.bin")));
    BOOST_TEST(same_bits(got.scales, stored<float>("act_scale_f32.bin")));
    for (std::uint32_t r = 0; r < 8; ++r) {
      std::int32_t sum = 0;
      for (std::uint32_t i = 0; i < 512; ++i) sum += got.values[r * 512 + i];
      BOOST_TEST(got.sums[r] == sum);
    }
  });
}

BOOST_AUTO_TEST_CASE(stored_products_have_their_bits) {
  const rounded_rows x = round_rows(stored<float>("act_f32.bin"), 8);
  const auto sums = stored<std::int32_t>("sum_i32.bin");
  const auto outputs = stored<float>("y_f32.bin");
  const std::vector<float> ones(8, 1.0F);
  kernels::host::thread_pool pool(2);
  for (const stored_form& form : stored_forms) {
    const auto raw = stored<std::byte>(form.file);
    test::on_every_product_level([&](kernels::host::isa_level) {
      std::vector<float> y(64);
      kernels::matmul_args product{
          .weights = {.data = raw.data(), .type = form.type, .rows = 8, .cols = 512, .code_scale = 0.6875F},
          .ints = x.view(),
          .y = y.data(),
          .x_stride = 512,
          .y_stride = 8,
          .columns = 8};
      kernels::host::matmul({&product, 1}, pool);
      BOOST_TEST(same_bits(y, outputs), form.file);
      product.ints.scales = ones.data();
      product.weights.code_scale = 1.0F;
      kernels::host::matmul({&product, 1}, pool);
      for (std::size_t i = 0; i < y.size(); ++i)
        BOOST_TEST_REQUIRE(y[i] == static_cast<float>(sums[i]), form.file);
    });
  }
}

BOOST_AUTO_TEST_CASE(random_products_on_every_level_and_number_of_columns) {
  for (const ggml_type type : ternary_types) {
    for (const std::uint32_t columns : {1U, 2U, 3U, 4U, 5U, 8U, 31U, 64U}) {
      problem p(type, 13, 1280, columns, 31 + columns);
      p.set_scale();
      check(p, "random");
    }
  }
}

// Every bit pattern of the weights, and activations at the end of their range, over more columns than sixteen
// bits hold the sum of.
BOOST_AUTO_TEST_CASE(extreme_inputs_never_wrap) {
  for (const ggml_type type : ternary_types) {
    for (const int fill : {0x00, 0x55, 0xaa, 0xff, -1}) {
      for (const int activation : {127, -128, 0}) {
        problem p(type, 5, 6912, 5, 7);
        if (fill >= 0) std::fill(p.weights.begin(), p.weights.end(), static_cast<std::byte>(fill));
        for (std::size_t i = 0; i < p.x.values.size(); ++i)
          p.x.values[i] = static_cast<std::int8_t>(activation != 0 ? activation : i % 2 == 0 ? 127 : -128);
        p.set_scale();
        p.sum_up();
        check(p, "weights of " + std::to_string(fill) + " with " + std::to_string(activation));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(same_bits_alone_and_with_any_number_of_threads) {
  for (const ggml_type type : ternary_types) {
    const problem batch(type, 300, 512, 37, 99);
    const std::vector<float> first = batch.run(1);
    test::on_every_product_level([&](kernels::host::isa_level level) {
      for (const unsigned threads : {1U, 3U})
        BOOST_TEST(same_bits(first, batch.run(threads)), isa_name(level));
      for (std::uint32_t m = 0; m < batch.columns; m += 6) {
        std::vector<float> y(batch.rows);
        kernels::matmul_args alone = batch.args(y.data());
        alone.columns = 1;
        alone.x_rows = &m;
        kernels::host::thread_pool pool(1);
        kernels::host::matmul({&alone, 1}, pool);
        BOOST_TEST_REQUIRE(std::memcmp(y.data(), &first[std::size_t{m} * batch.rows], y.size() * 4) == 0);
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(bias_and_accumulation) {
  const problem p(ggml_type::i2_s, 6, 128, 2, 3);
  const std::vector<float> plain = p.run(1);
  const std::vector<float> bias{1, 2, 3, 4, 5, 6};
  std::vector<float> y(12, 100.0F);
  kernels::matmul_args product = p.args(y.data());
  product.bias = bias.data();
  product.accumulate = true;
  kernels::host::thread_pool pool(1);
  kernels::host::matmul({&product, 1}, pool);
  for (std::size_t i = 0; i < y.size(); ++i) BOOST_TEST(y[i] == 100.0F + (plain[i] + bias[i % 6]));
}

BOOST_AUTO_TEST_CASE(rounding_of_odd_widths_and_of_numbers_that_are_none) {
  std::mt19937_64 random(5);
  for (const std::uint32_t width : {1U, 7U, 16U, 33U, 50U}) {
    std::vector<float> x = test::random_floats(std::size_t{3} * width, random);
    x[width] = std::numeric_limits<float>::quiet_NaN();
    x[2 * width] = std::numeric_limits<float>::infinity();
    std::vector<rounded_rows> all;
    test::on_every_level([&](kernels::host::isa_level) { all.push_back(round_rows(x, 3)); });
    for (const rounded_rows& other : all) {
      BOOST_TEST(same_bits(all.front().values, other.values));
      BOOST_TEST(same_bits(all.front().scales, other.scales));
      BOOST_TEST(same_bits(all.front().sums, other.sums));
    }
    float largest = 1e-5F;
    for (std::uint32_t i = 0; i < width; ++i) largest = std::max(largest, std::fabs(x[i]));
    for (std::uint32_t i = 0; i < width; ++i) {
      const float exact = std::nearbyintf(x[i] * (127.0F / largest));
      BOOST_TEST_REQUIRE(static_cast<float>(all.front().values[i]) == exact);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_code_of_three_is_found_wherever_it_is) {
  std::vector<std::byte> data(10'007, std::byte{0xaa});
  BOOST_TEST(!kernels::host::find_invalid_code(data.data(), data.size()));
  for (const std::size_t at : {std::size_t{0}, std::size_t{4095}, std::size_t{4096}, data.size() - 1}) {
    for (const unsigned bits : {0x03U, 0x0cU, 0x30U, 0xc0U}) {
      auto bad = data;
      bad[at] = static_cast<std::byte>(bits);
      const auto found = kernels::host::find_invalid_code(bad.data(), bad.size());
      BOOST_TEST_REQUIRE(found.has_value());
      BOOST_TEST(*found == at);
      BOOST_TEST(!kernels::host::find_invalid_code(bad.data(), at));
    }
  }
  // Neighbours that together have two set bits are none.
  std::fill(data.begin(), data.end(), std::byte{0x66});
  BOOST_TEST(!kernels::host::find_invalid_code(data.data(), data.size()));
}

BOOST_AUTO_TEST_CASE(one_scale_for_all_blocks) {
  using kernels::host::common_scale;
  for (const ggml_type type : {ggml_type::tq1_0, ggml_type::tq2_0}) {
    const std::uint32_t block = engine::traits_of(type).block_bytes;
    // The stored matrix has rows of zeros, whose d is 0.
    const auto raw = stored<std::byte>(type == ggml_type::tq1_0 ? "tq1_0.bin" : "tq2_0.bin");
    BOOST_TEST(common_scale(type, raw.data(), raw.size() / block).value() == 0.6875F);
    auto other = raw;
    other[other.size() - 2] = std::byte{1};
    BOOST_TEST(!common_scale(type, other.data(), other.size() / block));
    auto infinite = raw;
    infinite[block - 2] = std::byte{0};
    infinite[block - 1] = std::byte{0x7c};
    BOOST_TEST(!common_scale(type, infinite.data(), 1));
    // A zero scale over codes that are not zero is another scale.
    auto zero = raw;
    zero[block - 2] = zero[block - 1] = std::byte{0};
    BOOST_TEST(!common_scale(type, zero.data(), zero.size() / block));
  }
}

BOOST_AUTO_TEST_SUITE_END()
