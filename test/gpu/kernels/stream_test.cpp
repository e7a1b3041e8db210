// The kernels of families whose layers differ from Llama's, against f64; a row's bits do not depend on
// others.
#include "kernels/layer/stream.hpp"

#include <cuda_fp16.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/layer/embed_norm.hpp"
#include "kernels/product/packed_matrix.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

std::vector<float> random_values(std::size_t count, std::uint64_t seed, float size = 2.0F) {
  std::mt19937_64 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = random_unit(random) * size;
  return out;
}

double mean_of(std::span<const float> x) {
  double sum = 0.0;
  for (const float v : x) sum += v;
  return sum / static_cast<double>(x.size());
}
double mean_square(std::span<const float> x, double mean) {
  double sum = 0.0;
  for (const float v : x) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(x.size());
}

constexpr std::uint32_t columns = 3;
constexpr double half_step = 0x1p-11;

}  // namespace

BOOST_AUTO_TEST_SUITE(stream_kernels)

BOOST_AUTO_TEST_CASE(states_become_the_input_of_a_half) {
  for (const std::uint32_t width : {32U, 100U, 1000U, 5000U}) {
    const std::uint32_t stride = kernels::padded_cols(width);
    const auto x = random_values(std::size_t{columns} * width, width);
    const auto weight = random_values(width, 2);
    const auto bias = random_values(width, 3);
    const device_array<float> dx{std::span<const float>(x)}, dw{std::span<const float>(weight)},
        db{std::span<const float>(bias)};
    const std::vector<std::int32_t> rows{2, 0};
    const device_array<std::int32_t> dr{std::span<const std::int32_t>(rows)};
    for (const int kind : {0, 1, 2}) {  // itself, LayerNorm, LayerNorm with a bias
      device_array<__half> out(rows.size() * stride);
      kernels::state_to_half_args a{dx.data(),
                                    kind > 0 ? dw.data() : nullptr,
                                    kind > 1 ? db.data() : nullptr,
                                    width,
                                    static_cast<std::uint32_t>(rows.size()),
                                    dr.data(),
                                    1e-2F,
                                    out.data(),
                                    stride};
      BOOST_REQUIRE_EQUAL(kernels::launch_state_to_half(a, nullptr), 0);
      const auto got = out.read();
      for (std::size_t m = 0; m < rows.size(); ++m) {
        const auto row = std::span(x).subspan(static_cast<std::size_t>(rows[m]) * width, width);
        const double mean = mean_of(row);
        const double scale = 1.0 / std::sqrt(mean_square(row, mean) + 1e-2);
        for (std::uint32_t i = 0; i < stride; ++i) {
          double want = 0.0;
          if (i < width) {
            want = kind == 0 ? row[i] : (row[i] - mean) * scale * weight[i];
            if (kind == 2) want += bias[i];
          }
          BOOST_TEST_REQUIRE(std::fabs(__half2float(got[m * stride + i]) - want) <=
                             half_step * std::fabs(want) + 1e-5);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(norms_and_gated_values_are_added_to_the_stream) {
  for (const std::uint32_t width : {32U, 100U, 3000U}) {
    const auto x = random_values(std::size_t{columns} * width, 4);
    const auto h = random_values(std::size_t{columns} * width, 5);
    const auto weight = random_values(width, 6);
    std::vector<__half> normed(std::size_t{columns} * width);
    const auto values = random_values(normed.size(), 7, 0.1F);
    for (std::size_t i = 0; i < normed.size(); ++i) normed[i] = __float2half_rn(values[i]);
    const device_array<float> dh{std::span<const float>(h)}, dw{std::span<const float>(weight)};
    const device_array<__half> dn{std::span<const __half>(normed)};
    const device_array<float> added{std::span<const float>(x)}, gated{std::span<const float>(x)};
    BOOST_REQUIRE_EQUAL(
        kernels::launch_add_normed({added.data(), dh.data(), dw.data(), width, columns, 1e-2F}, nullptr), 0);
    BOOST_REQUIRE_EQUAL(kernels::launch_add_gated(
                            {gated.data(), dh.data(), dw.data(), dn.data(), width, width, columns}, nullptr),
                        0);
    const auto sums = added.read();
    const auto others = gated.read();
    for (std::size_t m = 0; m < columns; ++m) {
      const auto row = std::span(h).subspan(m * width, width);
      const double scale = 1.0 / std::sqrt(mean_square(row, 0.0) + 1e-2);
      double dot = 0.0;
      for (std::uint32_t i = 0; i < width; ++i)
        dot += static_cast<double>(__half2float(normed[m * width + i])) * weight[i];
      const double gate = 1.0 / (1.0 + std::exp(-dot));
      for (std::uint32_t i = 0; i < width; ++i) {
        const std::size_t at = m * width + i;
        BOOST_TEST_REQUIRE(std::fabs(sums[at] - (x[at] + row[i] * scale * weight[i])) < 1e-5);
        BOOST_TEST_REQUIRE(std::fabs(others[at] - (x[at] + gate * row[i])) < 1e-5);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_next_input_has_the_bits_of_its_own_kernel) {
  for (const std::uint32_t width : {100U, 3000U, 5000U}) {
    const std::uint32_t stride = kernels::padded_cols(width);
    const auto x = random_values(std::size_t{columns} * width, 14);
    const auto h = random_values(std::size_t{columns} * width, 15);
    const auto weight = random_values(width, 16);
    const auto next_weight = random_values(width, 17);
    const device_array<float> dh{std::span<const float>(h)}, dw{std::span<const float>(weight)};
    const device_array<float> dn{std::span<const float>(next_weight)};
    for (const bool normed : {false, true}) {
      const device_array<float> together{std::span<const float>(x)}, apart{std::span<const float>(x)};
      const device_array<__half> got(std::size_t{columns} * stride), want(std::size_t{columns} * stride);
      kernels::add_normed_args a{apart.data(), dh.data(), dw.data(), width, columns, 1e-2F};
      BOOST_REQUIRE_EQUAL(kernels::launch_add_normed(a, nullptr), 0);
      if (normed) {
        BOOST_REQUIRE_EQUAL(
            kernels::launch_norm_to_half(
                {apart.data(), dn.data(), width, columns, nullptr, 2e-2F, want.data(), stride}, nullptr),
            0);
      } else {
        kernels::state_to_half_args plain{apart.data(), nullptr, nullptr, width, columns};
        plain.out = want.data();
        plain.out_stride = stride;
        BOOST_REQUIRE_EQUAL(kernels::launch_state_to_half(plain, nullptr), 0);
      }
      a.x = together.data();
      a.next_weight = normed ? dn.data() : nullptr;
      a.next_eps = 2e-2F;
      a.next = got.data();
      a.next_stride = stride;
      BOOST_REQUIRE_EQUAL(kernels::launch_add_normed(a, nullptr), 0);
      BOOST_TEST((together.read() == apart.read()));
      const auto halves = got.read();
      const auto expected = want.read();
      BOOST_TEST(std::memcmp(halves.data(), expected.data(), halves.size() * sizeof(__half)) == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(queries_and_keys_are_prepared_in_place) {
  constexpr std::uint32_t q = 96, k = 48, stride = q + 2 * k;
  const auto before = random_values(std::size_t{columns} * stride, 8);
  const auto q_norm = random_values(q, 9);
  const auto k_norm = random_values(k, 10);
  const std::vector<kernels::step_token> steps{{0, 15, 0}, {0, 16, 0}, {0, 100, 0}};
  const device_array<float> dq{std::span<const float>(q_norm)}, dk{std::span<const float>(k_norm)};
  const device_array<kernels::step_token> ds{std::span<const kernels::step_token>(steps)};
  for (const bool norms : {false, true}) {
    for (const float scale : {0.0F, 0.5F}) {
      const device_array<float> x{std::span<const float>(before)};
      kernels::prepare_qkv_args a{x.data(), stride, columns, q, k};
      if (norms) {
        a.q_norm = dq.data();
        a.k_norm = dk.data();
      }
      a.eps = 1e-2F;
      a.steps = ds.data();
      a.scale = scale;
      a.period = 16;
      BOOST_REQUIRE_EQUAL(kernels::launch_prepare_qkv(a, nullptr), 0);
      const auto got = x.read();
      for (std::size_t m = 0; m < columns; ++m) {
        const auto row = std::span(before).subspan(m * stride, stride);
        const double by = 1.0 + scale * std::log(1.0 + steps[m].position / 16);
        const double of_q = 1.0 / std::sqrt(mean_square(row.first(q), 0.0) + 1e-2);
        const double of_k = 1.0 / std::sqrt(mean_square(row.subspan(q, k), 0.0) + 1e-2);
        for (std::uint32_t i = 0; i < stride; ++i) {
          double want = row[i];
          if (norms && i < q) want *= of_q * q_norm[i];
          if (norms && i >= q && i < q + k) want *= of_k * k_norm[i - q];
          if (i < q) want *= by;
          BOOST_TEST_REQUIRE(std::fabs(got[m * stride + i] - want) < 1e-5);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stream_is_scaled_behind_what_is_added) {
  constexpr std::uint32_t width = 300;
  const auto x = random_values(std::size_t{columns} * width, 21);
  const auto h = random_values(x.size(), 22);
  const auto weight = random_values(width, 23);
  const device_array<float> dh{std::span<const float>(h)}, dw{std::span<const float>(weight)};
  const device_array<float> plain{std::span<const float>(x)}, scaled{std::span<const float>(x)};
  kernels::add_normed_args a{plain.data(), dh.data(), dw.data(), width, columns, 1e-2F};
  BOOST_REQUIRE_EQUAL(kernels::launch_add_normed(a, nullptr), 0);
  a.x = scaled.data();
  a.scale = 0.3F;
  BOOST_REQUIRE_EQUAL(kernels::launch_add_normed(a, nullptr), 0);
  const auto want = plain.read();
  const auto got = scaled.read();
  for (std::size_t i = 0; i < want.size(); ++i) BOOST_TEST_REQUIRE(got[i] == want[i] * 0.3F);
}

BOOST_AUTO_TEST_CASE(two_norms_are_added) {
  for (const std::uint32_t width : {32U, 300U, 3000U}) {
    const auto x = random_values(std::size_t{columns} * width, 24);
    const auto y = random_values(x.size(), 25, 30.0F);
    const auto of_x = random_values(width, 26);
    const auto of_y = random_values(width, 27);
    const device_array<float> dx{std::span<const float>(x)}, dy{std::span<const float>(y)};
    const device_array<float> wx{std::span<const float>(of_x)}, wy{std::span<const float>(of_y)};
    BOOST_REQUIRE_EQUAL(kernels::launch_add_norms(
                            {dx.data(), dy.data(), wx.data(), wy.data(), width, columns, 1e-2F}, nullptr),
                        0);
    const auto got = dx.read();
    for (std::size_t m = 0; m < columns; ++m) {
      const double sx = 1.0 / std::sqrt(mean_square(std::span(x).subspan(m * width, width), 0.0) + 1e-2);
      const double sy = 1.0 / std::sqrt(mean_square(std::span(y).subspan(m * width, width), 0.0) + 1e-2);
      for (std::uint32_t i = 0; i < width; ++i) {
        const std::size_t at = m * width + i;
        BOOST_TEST_REQUIRE(std::fabs(got[at] - (x[at] * sx * of_x[i] + y[at] * sy * of_y[i])) < 1e-5);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(inputs_of_layers_are_a_norm_and_a_row) {
  constexpr std::uint32_t layers = 5;
  for (const std::uint32_t width : {16U, 256U, 1000U}) {
    const auto projected = random_values(std::size_t{columns} * layers * width, 28);
    const auto table = random_values(projected.size(), 29);
    const auto weight = random_values(width, 30);
    const device_array<float> dp{std::span<const float>(projected)}, dt{std::span<const float>(table)},
        dw{std::span<const float>(weight)};
    BOOST_REQUIRE_EQUAL(
        kernels::launch_layer_inputs(
            {dp.data(), dt.data(), dw.data(), width, layers, columns, 0.5F, 16.0F, 1e-2F}, nullptr),
        0);
    const auto got = dt.read();
    for (std::size_t row = 0; row < std::size_t{columns} * layers; ++row) {
      const auto c = std::span(projected).subspan(row * width, width);
      const double scale = 0.5 / std::sqrt(0.25 * mean_square(c, 0.0) + 1e-2);
      for (std::uint32_t i = 0; i < width; ++i) {
        const double want = (c[i] * scale * weight[i] + 16.0 * table[row * width + i]) / std::sqrt(2.0);
        BOOST_TEST_REQUIRE(std::fabs(got[row * width + i] - want) < 1e-5);
      }
    }
  }
}

// Rows far beyond f16, and small ones, which stay as they are.
BOOST_AUTO_TEST_CASE(rows_beyond_f16_are_divided_and_gelu_multiplies_them_again) {
  constexpr std::uint32_t width = 128;
  auto x = random_values(std::size_t{columns} * width, 31);
  for (std::uint32_t i = 0; i < width; ++i) x[width + i] *= 1e6F;
  const auto factors = random_values(x.size(), 32);
  const device_array<float> dx{std::span<const float>(x)}, df{std::span<const float>(factors)};
  const device_array<__half> out(x.size());
  const device_array<float> powers(columns);
  kernels::state_to_half_args a{dx.data(), nullptr, nullptr, width, columns};
  a.out = out.data();
  a.out_stride = width;
  a.factors = powers.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_state_to_half(a, nullptr), 0);
  const auto by = powers.read();
  const auto halves = out.read();
  BOOST_TEST(by[0] == 1.0F);
  BOOST_TEST(by[1] == 128.0F);
  std::vector<float> small(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float power = by[i / width];
    small[i] = x[i] / power;
    BOOST_TEST_REQUIRE(std::fabs(__half2float(halves[i])) <= 16'384.0F);
    BOOST_TEST_REQUIRE(std::fabs(__half2float(halves[i]) * power - x[i]) <=
                       half_step * std::fabs(x[i]) + 1e-5);
  }
  const device_array<float> ds{std::span<const float>(small)};
  const device_array<__half> act(x.size());
  kernels::gelu_tanh_args gelu{ds.data(), false, width, columns, act.data(), width};
  gelu.factors = df.data();
  gelu.factors_stride = width;
  gelu.x_factors = powers.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_gelu_tanh(gelu, nullptr), 0);
  const auto got = act.read();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double g = 0.5 * v * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
    const double want = std::clamp(g * factors[i], -65'504.0, 65'504.0);
    BOOST_TEST_REQUIRE(std::fabs(__half2float(got[i]) - want) <= half_step * std::fabs(want) + 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(gelu_and_caps) {
  constexpr std::uint32_t width = 700;
  const std::uint32_t stride = kernels::padded_cols(width);
  const auto x = random_values(std::size_t{columns} * 2 * width, 11, 6.0F);
  const device_array<float> dx{std::span<const float>(x)};
  const auto gelu = [](double v) {
    return 0.5 * v * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  for (const bool gated : {false, true}) {
    const device_array<__half> out(std::size_t{columns} * stride);
    BOOST_REQUIRE_EQUAL(
        kernels::launch_gelu_tanh({dx.data(), gated, width, columns, out.data(), stride}, nullptr), 0);
    const auto got = out.read();
    for (std::size_t m = 0; m < columns; ++m) {
      for (std::uint32_t i = 0; i < stride; ++i) {
        const float* row = x.data() + m * width * (gated ? 2 : 1);
        const double want = i >= width ? 0.0 : gelu(row[i]) * (gated ? row[width + i] : 1.0F);
        BOOST_TEST_REQUIRE(std::fabs(__half2float(got[m * stride + i]) - want) <=
                           half_step * std::fabs(want) + 1e-5);
      }
    }
  }
  for (const float cap : {0.0F, 2.0F}) {
    const device_array<float> values{std::span<const float>(x)};
    BOOST_REQUIRE_EQUAL(kernels::launch_scale_values({values.data(), x.size(), 0.7F, cap}, nullptr), 0);
    const auto got = values.read();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scaled = double{0.7F} * x[i];
      BOOST_TEST_REQUIRE(std::fabs(got[i] - (cap > 0.0F ? cap * std::tanh(scaled / cap) : scaled)) < 1e-5);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
