// Routing on the GPU against a plain computation: which experts, in what order, with what weights.
#include "kernels/experts.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {

BOOST_AUTO_TEST_SUITE(experts)

BOOST_AUTO_TEST_CASE(the_highest_logits_are_chosen_and_weighted_by_their_softmax) {
  constexpr std::uint32_t columns = 50;
  for (const std::uint32_t count : {4U, 8U, 32U, 129U, 512U}) {
    const std::uint32_t used = 4;
    std::mt19937_64 random(count);
    std::vector<float> logits(columns * count);
    // Few distinct values, so that ties occur and must go to the lowest id.
    for (float& v : logits) v = std::round(random_unit(random) * 20.0F) / 4.0F;
    const device_array<float> device_logits{std::span<const float>(logits)};
    device_array<std::int32_t> chosen(columns * used);
    device_array<float> weights(columns * used);
    BOOST_REQUIRE_EQUAL(
        kernels::launch_choose_experts(
            {device_logits.data(), count, used, columns, chosen.data(), weights.data()}, nullptr),
        0);
    const auto got = chosen.read();
    const auto got_weights = weights.read();
    for (std::uint32_t m = 0; m < columns; ++m) {
      const float* row = logits.data() + m * count;
      std::vector<std::int32_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int32_t a, std::int32_t b) { return row[a] > row[b]; });
      double sum = 0;
      for (std::uint32_t i = 0; i < used; ++i) sum += std::exp(double{row[order[i]]} - row[order[0]]);
      for (std::uint32_t i = 0; i < used; ++i) {
        BOOST_TEST(got[m * used + i] == order[i]);
        const double want = std::exp(double{row[order[i]]} - row[order[0]]) / sum;
        BOOST_TEST(std::abs(got_weights[m * used + i] - want) < 1e-6, "column " << m << " rank " << i);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_router_matches_f64_and_its_neighbours_change_no_bit) {
  constexpr std::uint32_t columns = 9;
  constexpr std::uint32_t width = 2880;
  constexpr std::uint32_t count = 32;
  std::mt19937_64 random(4);
  const auto fill = [&](std::size_t n) {
    std::vector<float> v(n);
    for (float& f : v) f = random_unit(random);
    return v;
  };
  const auto x = fill(columns * width);
  const auto norm = fill(width);
  const auto router = fill(count * width);
  const auto bias = fill(count);
  const device_array<float> dx{std::span<const float>(x)};
  const device_array<float> dn{std::span<const float>(norm)};
  const device_array<float> dr{std::span<const float>(router)};
  const device_array<float> db{std::span<const float>(bias)};
  device_array<float> all(columns * count);
  device_array<float> one(count);
  const auto run = [&](const float* from, std::uint32_t n, const device_array<float>& out) {
    BOOST_REQUIRE_EQUAL(
        kernels::launch_router({from, dn.data(), 1e-5F, dr.data(), db.data(), width, count, n, out.data()},
                               nullptr),
        0);
    return out.read();
  };
  const auto together = run(dx.data(), columns, all);
  for (std::uint32_t m = 0; m < columns; ++m) {
    const auto alone = run(dx.data() + m * width, 1, one);
    BOOST_TEST(std::equal(alone.begin(), alone.end(), together.begin() + m * count), "column " << m);
    double squares = 0;
    for (std::uint32_t i = 0; i < width; ++i) squares += double{x[m * width + i]} * x[m * width + i];
    const double scale = 1 / std::sqrt(squares / width + 1e-5);
    for (std::uint32_t e = 0; e < count; ++e) {
      double want = bias[e];
      for (std::uint32_t i = 0; i < width; ++i)
        want += double{router[e * width + i]} * x[m * width + i] * scale * norm[i];
      BOOST_TEST(std::abs(together[m * count + e] - want) < 1e-3);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
