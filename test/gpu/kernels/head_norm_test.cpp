// Norms of single heads of Q and of K against f64; a column's bits do not depend on others.
#include "kernels/layer/head_norm.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t columns = 3;
constexpr double eps = 1e-2;

struct shape {
  std::uint32_t heads, kv_heads, width;
  [[nodiscard]] std::uint32_t stride() const { return (heads + 2 * kv_heads) * width; }
};

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = random_unit(random) * 2.0F + 0.5F;
  return out;
}

/// What a head becomes, in f64.
std::vector<double> normed(std::span<const float> x, std::span<const float> weight, bool centred) {
  const auto n = static_cast<double>(x.size());
  double mean = 0.0, squares = 0.0;
  for (const float v : x) mean += centred ? v / n : 0.0;
  for (const float v : x) squares += (v - mean) * (v - mean);
  std::vector<double> out;
  for (std::size_t i = 0; i < x.size(); ++i)
    out.push_back((x[i] - mean) / std::sqrt(squares / n + eps) * weight[i]);
  return out;
}

struct weights {
  std::vector<float> q, k;
};

void check(std::span<const float> before, std::span<const float> after, const shape& s, const weights& w,
           const kernels::norm_heads_args& a) {
  for (std::uint32_t i = 0; i < s.heads + 2 * s.kv_heads; ++i) {
    const auto x = before.subspan(std::size_t{i} * s.width, s.width);
    const bool query = i < s.heads;
    const bool kept = i >= s.heads + s.kv_heads || (!query && a.k_norm == nullptr);
    const std::size_t at = std::size_t{query ? i : i - s.heads} * a.weight_stride;
    std::vector<double> want(x.begin(), x.end());
    if (!kept) want = normed(x, std::span(query ? w.q : w.k).subspan(at, s.width), a.centred);
    for (std::uint32_t d = 0; d < s.width; ++d) {
      const double error = std::fabs(after[std::size_t{i} * s.width + d] - want[d]);
      BOOST_TEST_REQUIRE(error <= (kept ? 0.0 : 1e-5), "head " << i << " value " << d);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(head_norm_kernel)

BOOST_AUTO_TEST_CASE(heads_have_norms_of_either_kind_and_weights_of_their_own) {
  for (const shape& s : {shape{4, 2, 8}, shape{96, 8, 128}, shape{3, 1, 100}, shape{9, 3, 256}}) {
    const auto before = random_values(std::size_t{columns} * s.stride(), s.width);
    const weights w{random_values(std::size_t{s.heads} * s.width, 2),
                    random_values(std::size_t{s.kv_heads} * s.width, 3)};
    const device_array<float> q{std::span<const float>(w.q)}, k{std::span<const float>(w.k)};
    for (const int kind : {0, 1, 2, 3, 4}) {
      const device_array<float> x{std::span<const float>(before)};
      kernels::norm_heads_args a{x.data(), s.stride(), columns, s.heads, s.kv_heads, s.width, q.data()};
      a.k_norm = kind == 4 ? nullptr : k.data();
      a.weight_stride = kind % 2 == 0 ? s.width : 0;
      a.centred = kind != 1 && kind != 2;
      a.eps = static_cast<float>(eps);
      BOOST_REQUIRE_EQUAL(kernels::launch_norm_heads(a, nullptr), 0);
      const auto after = x.read();
      for (std::uint32_t m = 0; m < columns; ++m) {
        const std::size_t row = std::size_t{m} * s.stride();
        check(std::span(before).subspan(row, s.stride()), std::span(after).subspan(row, s.stride()), s, w, a);
      }
      const device_array<float> alone{std::span(before).subspan(s.stride(), s.stride())};
      a.qkv = alone.data();
      a.columns = 1;
      BOOST_REQUIRE_EQUAL(kernels::launch_norm_heads(a, nullptr), 0);
      const auto one = alone.read();
      BOOST_TEST(std::memcmp(one.data(), after.data() + s.stride(), one.size() * sizeof one[0]) == 0);
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_shapes_are_refused) {
  const device_array<float> x(64), w(16);
  kernels::norm_heads_args a{x.data(), 64, 1, 4, 2, 8, w.data(), w.data()};
  BOOST_TEST(kernels::launch_norm_heads(a, nullptr) == 0);
  a.stride = 47;
  BOOST_TEST(kernels::launch_norm_heads(a, nullptr) != 0);
  a.stride = 64;
  a.weight_stride = 7;
  BOOST_TEST(kernels::launch_norm_heads(a, nullptr) != 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
