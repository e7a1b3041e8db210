// Products of ternary weights on the device: the host's bits at any number of columns, of random and of
// extreme inputs; and rounding to int8.
#include "kernels/product/ternary.hpp"

#include <cuda_fp16.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/host/matmul.hpp"
#include "kernels/host/swiglu.hpp"
#include "kernels/host/ternary.hpp"
#include "kernels/host/thread_pool.hpp"
#include "kernels/layer/norm_to_int8.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;
namespace data = boost::unit_test::data;

/// Rows of I2_S and int8 activations on both sides.
struct ternary_problem {
  ternary_problem(std::vector<std::uint32_t> row_counts, std::uint32_t width, std::uint32_t count,
                  std::uint64_t seed)
      : rows(std::move(row_counts)),
        cols(width),
        columns(count),
        values(std::size_t{count} * width),
        scales(count) {
    std::mt19937_64 random(seed);
    for (const std::uint32_t r : rows) {
      weights.push_back(random_payload(ggml_type::i2_s, std::uint64_t{r} * cols, 0.5F, random));
      all_rows += r;
    }
    for (std::int8_t& v : values) v = static_cast<std::int8_t>(random() >> 40);
    for (float& s : scales) s = static_cast<float>(1 + random() % 1000) / 7.0F;
  }
  void fill(std::byte code, std::int8_t value) {
    for (bytes& w : weights) std::fill(w.begin(), w.end(), code);
    std::fill(values.begin(), values.end(), value);
  }
  [[nodiscard]] std::vector<std::int32_t> sums() const {
    std::vector<std::int32_t> out(columns);
    for (std::size_t i = 0; i < values.size(); ++i) out[i / cols] += values[i];
    return out;
  }
  [[nodiscard]] float code_scale(std::size_t matrix) const { return 0.37F + static_cast<float>(matrix); }

  [[nodiscard]] std::vector<float> on_host(float before, bool add) const {
    std::vector<float> y(std::size_t{columns} * all_rows, before);
    const std::vector<std::int32_t> of_values = sums();
    kernels::host::thread_pool pool(4);
    std::size_t offset = 0;
    for (std::size_t m = 0; m < rows.size(); ++m) {
      const kernels::matmul_args product{.weights = {.data = weights[m].data(),
                                                     .type = ggml_type::i2_s,
                                                     .rows = rows[m],
                                                     .cols = cols,
                                                     .code_scale = code_scale(m)},
                                         .ints = {values.data(), scales.data(), of_values.data()},
                                         .y = y.data() + offset,
                                         .x_stride = cols,
                                         .y_stride = all_rows,
                                         .columns = columns,
                                         .accumulate = add};
      kernels::host::matmul({&product, 1}, pool);
      offset += rows[m];
    }
    return y;
  }

  /// `at_once` columns a launch.
  [[nodiscard]] std::vector<float> on_device(std::uint32_t at_once, float before, bool add) const {
    std::vector<std::unique_ptr<device_array<std::byte>>> owned;
    const device_array<std::int8_t> x{std::span<const std::int8_t>(values)};
    const device_array<float> s{std::span<const float>(scales)};
    const std::vector<std::int32_t> of_values = sums();
    const device_array<std::int32_t> t{std::span<const std::int32_t>(of_values)};
    const std::vector<float> start(std::size_t{columns} * all_rows, before);
    const device_array<float> out{std::span<const float>(start)};
    kernels::ternary_matmul_args args;
    args.matrices = static_cast<std::uint32_t>(rows.size());
    for (std::size_t m = 0; m < rows.size(); ++m) {
      owned.push_back(std::make_unique<device_array<std::byte>>(std::span<const std::byte>(weights[m])));
      args.w[m] = {owned.back()->data(), rows[m], cols, code_scale(m)};
    }
    for (std::uint32_t first = 0; first < columns; first += at_once) {
      args.columns = std::min(at_once, columns - first);
      args.x = {x.data() + std::size_t{first} * cols, s.data() + first, t.data() + first, cols};
      args.out = out.data() + std::size_t{first} * all_rows;
      args.out_stride = all_rows;
      args.add = add;
      BOOST_REQUIRE_EQUAL(kernels::launch_ternary_matmul(args, nullptr), 0);
    }
    std::vector<float> got = out.read();
    return got;
  }

  std::vector<std::uint32_t> rows;
  std::uint32_t cols, columns;
  std::uint32_t all_rows = 0;
  std::vector<bytes> weights;
  std::vector<std::int8_t> values;
  std::vector<float> scales;
};

void check_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
  BOOST_REQUIRE_EQUAL(got.size(), want.size());
  BOOST_TEST(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0, what);
}

void check(const ternary_problem& p, const std::string& what) {
  const std::vector<float> want = p.on_host(3.5F, true);
  for (const std::uint32_t at_once : {1U, 3U, 8U, 9U, 24U, 64U, 65U, 200U}) {
    check_bits(
        p.on_device(at_once, 3.5F, true), want,
        what + ", " + std::to_string(at_once) + " columns of " + std::to_string(p.columns) + " at once");
  }
}

/// Rows of activations as the host rounds them.
struct host_integers {
  host_integers(const std::vector<float>& x, std::uint32_t columns)
      : values(x.size()), scales(columns), sums(columns) {
    const auto width = static_cast<std::uint32_t>(x.size() / columns);
    kernels::host::thread_pool pool(1);
    kernels::host::round_to_int8({.x = x.data(),
                                  .values = values.data(),
                                  .scales = scales.data(),
                                  .sums = sums.data(),
                                  .x_stride = width,
                                  .rows = columns,
                                  .width = width},
                                 pool);
  }
  std::vector<std::int8_t> values;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

/// What the device rounds `args` to; `args` has all but its output.
struct device_integers {
  explicit device_integers(kernels::norm_to_int8_args args)
      : values(std::size_t{args.columns} * args.width), scales(args.columns), sums(args.columns) {
    args.out = {values.data(), scales.data(), sums.data(), args.width};
    BOOST_REQUIRE_EQUAL(kernels::launch_norm_to_int8(args, nullptr), 0);
  }
  void check_equal(const host_integers& want) const {
    BOOST_TEST((values.read() == want.values));
    const std::vector<float> got = scales.read();
    BOOST_TEST(std::memcmp(got.data(), want.scales.data(), got.size() * sizeof(float)) == 0);
    BOOST_TEST((sums.read() == want.sums));
  }
  device_array<std::int8_t> values;
  device_array<float> scales;
  device_array<std::int32_t> sums;
};

std::vector<float> random_values(std::size_t count, float spread, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = random_unit(random) * spread;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ternary)

BOOST_AUTO_TEST_CASE(random_products_have_the_hosts_bits) {
  check({{64}, 128, 70, 1}, "64 x 128");
  check({{300, 77, 77}, 2560, 133, 2}, "three matrices x 2560");
  check({{130, 130}, 384, 66, 3}, "two matrices x 384");
  check({{33}, 6912, 65, 4}, "33 x 6912");
  check({{24}, 16'384, 70, 5}, "24 x 16384");
}

// Warps have two fragments of so many rows.
BOOST_AUTO_TEST_CASE(many_rows_have_the_hosts_bits) {
  check({{4'100, 4'101}, 384, 67, 8}, "8201 x 384");
}

BOOST_AUTO_TEST_CASE(extreme_products_have_the_hosts_bits) {
  for (const std::byte code : {std::byte{0x00}, std::byte{0x55}, std::byte{0xaa}}) {
    for (const std::int8_t value : {std::int8_t{127}, std::int8_t{-128}, std::int8_t{0}}) {
      ternary_problem p({40}, 6912, 70, 5);
      p.fill(code, value);
      check(p, "weights of " + std::to_string(std::to_integer<int>(code)) + " with " + std::to_string(value));
    }
  }
}

BOOST_AUTO_TEST_CASE(outputs_replace_what_is_there_unless_they_are_added) {
  const ternary_problem p({48}, 256, 12, 6);
  for (const std::uint32_t at_once : {4U, 12U})
    check_bits(p.on_device(at_once, std::numeric_limits<float>::quiet_NaN(), false), p.on_host(0.0F, false),
               "replaced");
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  kernels::ternary_matmul_args args;
  BOOST_TEST(kernels::launch_ternary_matmul(args, nullptr) != 0);
  const device_array<std::byte> some(1 << 16);
  const auto good = [&] {
    kernels::ternary_matmul_args a;
    a.w[0] = {some.data(), 16, 256, 1.0F};
    a.matrices = a.columns = 1;
    a.x = {reinterpret_cast<std::int8_t*>(some.data()), reinterpret_cast<float*>(some.data()),
           reinterpret_cast<std::int32_t*>(some.data()), 256};
    a.out = reinterpret_cast<float*>(some.data());
    a.out_stride = 16;
    return a;
  };
  BOOST_TEST(kernels::launch_ternary_matmul(good(), nullptr) == 0);
  const auto refuses = [&](auto&& spoil) {
    kernels::ternary_matmul_args a = good();
    spoil(a);
    return kernels::launch_ternary_matmul(a, nullptr) != 0;
  };
  BOOST_TEST(refuses([](auto& a) { a.x.stride = 248; }));
  BOOST_TEST(refuses([](auto& a) { a.x.stride = 264; }));
  BOOST_TEST(refuses([](auto& a) { a.out_stride = 15; }));
  BOOST_TEST(refuses([](auto& a) { a.w[0].cols = 200; }));
  BOOST_TEST(refuses([](auto& a) {
    a.w[1] = {a.w[0].data, 16, 128, 1.0F};
    a.matrices = 2;
    a.out_stride = 32;
  }));
  BOOST_TEST(kernels::launch_norm_to_int8({}, nullptr) != 0);
}

/// The last width is not kept in registers.
BOOST_DATA_TEST_CASE(rounding_has_the_hosts_bits, data::make({2560U, 10'240U, 17'408U}), width) {
  constexpr std::uint32_t columns = 7;
  std::vector<float> x = random_values(std::size_t{width} * columns, 3.0F, 7);
  std::fill(x.begin() + width, x.begin() + 2 * width, 0.0F);
  for (std::uint32_t i = 0; i < width; ++i) x[2 * width + i] = static_cast<float>(i % 255) - 127.0F + 0.5F;
  x[2 * width] = 127.0F;  // a scale of 1, and ties
  x[3 * width + 5] = 1e30F;
  x[4 * width + 9] = std::numeric_limits<float>::quiet_NaN();
  x[5 * width + 9] = std::numeric_limits<float>::infinity();
  const device_array<float> on_device{std::span<const float>(x)};
  kernels::norm_to_int8_args args;
  args.x = on_device.data();
  args.x_stride = args.width = width;
  args.columns = columns;
  device_integers(args).check_equal({x, columns});
}

BOOST_DATA_TEST_CASE(squared_gates_have_the_hosts_bits, data::make({384U, 6912U, 10'240U, 17'408U}), width) {
  constexpr std::uint32_t columns = 5;
  const std::vector<float> x =
      random_values(std::size_t{width} * columns * 2, 700.0F, 8);  // squares exceed f16
  std::vector<float> activated(std::size_t{width} * columns);
  kernels::host::thread_pool pool(1);
  kernels::host::swiglu({.gate = x.data(),
                         .up = x.data() + width,
                         .out = activated.data(),
                         .in_stride = 2 * width,
                         .rows = columns,
                         .width = width,
                         .kind = kernels::gated_activation::squared},
                        pool);
  const device_array<float> on_device{std::span<const float>(x)};
  kernels::norm_to_int8_args args;
  args.gate_up = on_device.data();
  args.squared = true;
  args.x_stride = 2 * width;
  args.width = width;
  args.columns = columns;
  device_integers(args).check_equal({activated, columns});
}

// Rows of halves lie apart, as attention pads them.
BOOST_AUTO_TEST_CASE(halves_have_the_hosts_bits) {
  constexpr std::uint32_t width = 320, stride = 384, columns = 6;
  const std::vector<float> random = random_values(std::size_t{stride} * columns, 5.0F, 11);
  std::vector<std::uint16_t> halves;
  for (const float v : random) halves.push_back(to_half(v));
  std::vector<float> x;
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (std::uint32_t i = 0; i < width; ++i)
      x.push_back(__half2float(__ushort_as_half(halves[std::size_t{c} * stride + i])));
  }
  const device_array<std::uint16_t> on_device{std::span<const std::uint16_t>(halves)};
  kernels::norm_to_int8_args args;
  args.halves = reinterpret_cast<const __half*>(on_device.data());
  args.x_stride = stride;
  args.width = width;
  args.columns = columns;
  device_integers(args).check_equal({x, columns});
}

BOOST_AUTO_TEST_CASE(gates_with_silu_are_near_the_exact_ones) {
  constexpr std::uint32_t width = 384, columns = 5;
  const std::vector<float> x = random_values(std::size_t{width} * columns * 2, 4.0F, 12);
  const device_array<float> on_device{std::span<const float>(x)};
  kernels::norm_to_int8_args args;
  args.gate_up = on_device.data();
  args.x_stride = 2 * width;
  args.width = width;
  args.columns = columns;
  const device_integers got(args);
  const auto values = got.values.read();
  const auto scales = got.scales.read();
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (std::uint32_t i = 0; i < width; ++i) {
      const double gate = x[std::size_t{c} * 2 * width + i], up = x[std::size_t{c} * 2 * width + width + i];
      const double exact = gate / (1.0 + std::exp(-gate)) * up * scales[c];
      BOOST_TEST_REQUIRE(std::fabs(values[std::size_t{c} * width + i] - exact) < 0.501);
    }
  }
}

BOOST_DATA_TEST_CASE(a_norm_is_rounded_and_does_not_depend_on_its_neighbours,
                     data::make({2560U, 10'240U, 17'408U}), width) {
  constexpr std::uint32_t columns = 9;
  const std::vector<float> x = random_values(std::size_t{width} * columns, 2.0F, 9);
  const std::vector<float> weight = random_values(width, 1.0F, 10);
  const device_array<float> rows{std::span<const float>(x)};
  const device_array<float> weights{std::span<const float>(weight)};
  kernels::norm_to_int8_args args;
  args.x = rows.data();
  args.x_stride = args.width = width;
  args.weight = weights.data();
  args.columns = columns;
  args.eps = 1e-5F;
  const device_integers all(args);
  const auto values = all.values.read();
  const auto scales = all.scales.read();
  for (std::uint32_t m = 0; m < columns; ++m) {
    double squares = 0.0;
    for (std::uint32_t i = 0; i < width; ++i) squares += std::pow(double{x[m * width + i]}, 2);
    const double scale = 1.0 / std::sqrt(squares / width + 1e-5);
    for (std::uint32_t i = 0; i < width; ++i) {
      const double exact = x[m * width + i] * scale * weight[i] * scales[m];
      BOOST_TEST_REQUIRE(std::fabs(values[m * width + i] - exact) < 0.501);
    }
    args.x = rows.data() + std::size_t{m} * width;
    args.columns = 1;
    const device_integers alone(args);
    const std::vector<std::int8_t> here(values.begin() + m * width, values.begin() + (m + 1) * width);
    BOOST_TEST((alone.values.read() == here));
    BOOST_TEST(alone.scales.read()[0] == scales[m]);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
