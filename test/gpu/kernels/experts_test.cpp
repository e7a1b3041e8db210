// Routing on the GPU against a plain computation: which experts, in what order, with what weights.
#include "kernels/layer/experts.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/host/moe.hpp"
#include "kernels/host/thread_pool.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"
#include "test/support/route_check.hpp"

namespace orcd::test {

BOOST_AUTO_TEST_SUITE(experts)

namespace {

/// Random routing inputs of `columns` rows on the device.
struct routing {
  routing(std::uint32_t rows, std::uint32_t row_width, std::uint32_t count, std::uint64_t seed)
      : columns(rows), width(row_width), experts(count), random(seed) {
    x = fill(std::size_t{rows} * row_width);
    norm = fill(row_width);
    router = fill(std::size_t{count} * row_width);
    bias = fill(count);
  }

  std::vector<float> fill(std::size_t n) {
    std::vector<float> v(n);
    for (float& f : v) f = random_unit(random);
    return v;
  }

  struct result {
    std::vector<float> logits;
    std::vector<std::int32_t> chosen;
    std::vector<float> weights;
    std::vector<__half> normed;
  };

  /// Routes rows first .. first + count - 1 in one launch.
  [[nodiscard]] result route(std::uint32_t first, std::uint32_t count) const {
    const device_array<float> dx{std::span<const float>(x)};
    const device_array<float> dn{std::span<const float>(norm)};
    const device_array<float> dr{std::span<const float>(router)};
    const device_array<float> db{std::span<const float>(bias)};
    device_array<float> logits(std::size_t{count} * experts);
    device_array<std::int32_t> chosen(std::size_t{count} * used);
    device_array<float> weights(std::size_t{count} * used);
    device_array<std::uint32_t> arrivals(count);
    arrivals.fill(0);
    const device_array<__half> normed(std::size_t{count} * kernels::padded_cols(width));
    const std::vector<float> unbiased = {0.0F};
    const device_array<float> dc{std::span<const float>(choice_bias.empty() ? unbiased : choice_bias)};
    kernels::route_args args{dx.data() + std::size_t{first} * width,
                             dn.data(),
                             1e-5F,
                             dr.data(),
                             db.data(),
                             width,
                             experts,
                             used,
                             count,
                             logits.data(),
                             chosen.data(),
                             weights.data(),
                             arrivals.data()};
    args.weighting = weighting;
    if (!choice_bias.empty()) args.choice_bias = dc.data();
    args.scale = scale;
    const std::vector<float> ones(experts, 1.0F);
    const device_array<float> de{std::span<const float>(expert_scales.empty() ? ones : expert_scales)};
    if (!expert_scales.empty()) args.expert_scales = de.data();
    args.normed = normed.data();
    args.normed_order = normed_order;
    for (int repeat = 0; repeat < 3; ++repeat)
      BOOST_REQUIRE_EQUAL(kernels::launch_route(args, groups, nullptr), 0);
    for (const std::uint32_t left : arrivals.read()) BOOST_TEST(left == 0U);
    return {logits.read(), chosen.read(), weights.read(), normed.read()};
  }
  /// The norm of all rows by the kernel for norms alone.
  [[nodiscard]] std::vector<__half> norms(kernels::half_order order = kernels::half_order::natural) const {
    const device_array<float> dx{std::span<const float>(x)};
    const device_array<float> dn{std::span<const float>(norm)};
    const std::uint32_t stride = kernels::padded_cols(width);
    const device_array<__half> out(std::size_t{columns} * stride);
    BOOST_REQUIRE_EQUAL(
        kernels::launch_norm_to_half(
            {dx.data(), dn.data(), width, columns, nullptr, 1e-5F, out.data(), stride, order}, nullptr),
        0);
    return out.read();
  }

  std::uint32_t columns, width, experts;
  std::uint32_t used = 4;
  std::mt19937_64 random;
  std::vector<float> x, norm, router, bias;
  kernels::route_weighting weighting = kernels::route_weighting::selected;
  std::vector<float> choice_bias = {};    ///< or none
  std::vector<float> expert_scales = {};  ///< or none
  float scale = 1.0F;
  kernels::expert_groups groups = {};
  kernels::half_order normed_order = kernels::half_order::natural;

  [[nodiscard]] bool is_sigmoid() const {
    return weighting == kernels::route_weighting::sigmoid ||
           weighting == kernels::route_weighting::sigmoid_renormalised;
  }
};

/// In packed order the router and the norm alone leave the same halves, each in its place.
void check_packed_norms(routing r, const std::vector<__half>& natural) {
  r.normed_order = kernels::half_order::packed;
  const auto by_router = r.route(0, r.columns).normed;
  std::vector<__half> want(natural.size());
  for (std::size_t i = 0; i < natural.size(); ++i)
    want[kernels::place_of_half(r.normed_order, static_cast<std::uint32_t>(i))] = natural[i];
  BOOST_TEST((std::memcmp(by_router.data(), want.data(), want.size() * sizeof(__half)) == 0));
  const auto alone = r.norms(r.normed_order);
  BOOST_TEST((std::memcmp(alone.data(), want.data(), want.size() * sizeof(__half)) == 0));
}

/// The choice and the weights in the other ways, from the logits that the device computed.
void check_weighting(const routing& r, const routing::result& got) {
  using enum kernels::route_weighting;
  const route_rule rule{.sigmoids = r.is_sigmoid(),
                        .renormalised = r.weighting == selected || r.weighting == sigmoid_renormalised,
                        .scale = r.scale,
                        .groups = r.groups,
                        .bias = r.choice_bias};
  for (std::uint32_t m = 0; m < r.columns; ++m) {
    check_route(std::span(got.logits).subspan(std::size_t{m} * r.experts, r.experts), rule,
                std::span(got.chosen).subspan(std::size_t{m} * r.used, r.used),
                std::span(got.weights).subspan(std::size_t{m} * r.used, r.used), 1e-5);
  }
}

kernels::expert_weighting on_the_host(kernels::route_weighting weighting) {
  switch (weighting) {
    case kernels::route_weighting::all: return kernels::expert_weighting::all;
    case kernels::route_weighting::sigmoid: return kernels::expert_weighting::sigmoid;
    case kernels::route_weighting::sigmoid_renormalised:
      return kernels::expert_weighting::sigmoid_renormalised;
    case kernels::route_weighting::selected: break;
  }
  return kernels::expert_weighting::all_renormalised;
}

/// The host's choice, and its weights but for rounding.
void check_with_host(const routing& r, const routing::result& got) {
  kernels::host::thread_pool pool(1);
  std::vector<std::uint32_t> chosen(got.chosen.size());
  std::vector<float> weights(got.weights.size());
  kernels::host::moe_route({.logits = got.logits.data(),
                            .choice_bias = r.choice_bias.empty() ? nullptr : r.choice_bias.data(),
                            .chosen = chosen.data(),
                            .weights = weights.data(),
                            .columns = static_cast<std::uint32_t>(chosen.size()) / r.used,
                            .experts = r.experts,
                            .used = r.used,
                            .weighting = on_the_host(r.weighting),
                            .scale = r.scale,
                            .groups = r.groups},
                           pool);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    BOOST_TEST(got.chosen[i] == static_cast<std::int32_t>(chosen[i]), "column " << i / r.used);
    BOOST_TEST(std::abs(got.weights[i] - weights[i]) < 1e-5);
  }
}

/// The choice and its softmax, from the logits that the device computed.
void check_choice(const routing& r, const routing::result& got) {
  for (std::uint32_t m = 0; m < r.columns; ++m) {
    const float* row = got.logits.data() + std::size_t{m} * r.experts;
    std::vector<std::int32_t> order(r.experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return row[a] > row[b]; });
    double sum = 0;
    for (std::uint32_t i = 0; i < r.used; ++i) sum += std::exp(double{row[order[i]]} - row[order[0]]);
    for (std::uint32_t i = 0; i < r.used; ++i) {
      BOOST_TEST(got.chosen[m * r.used + i] == order[i]);
      const double want = std::exp(double{row[order[i]]} - row[order[0]]) / sum;
      BOOST_TEST(std::abs(got.weights[m * r.used + i] - want) < 1e-6, "column " << m << " rank " << i);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_highest_logits_are_chosen_and_weighted_by_their_softmax) {
  for (const std::uint32_t count : {4U, 8U, 32U, 33U, 64U, 128U, 129U, 512U}) {
    routing r(50, 64, count, count);
    check_choice(r, r.route(0, r.columns));
    // Without a router the biases alone are the logits; few distinct ones, so that ties occur and must go to
    // the lowest id.
    std::fill(r.router.begin(), r.router.end(), 0.0F);
    for (float& v : r.bias) v = std::round(v * 20.0F) / 4.0F;
    check_choice(r, r.route(0, r.columns));
  }
}

BOOST_AUTO_TEST_CASE(scales_of_experts_multiply_their_weights) {
  for (const std::uint32_t count : {4U, 128U}) {
    routing r(200, 64, count, count + 7);
    const auto plain = r.route(0, r.columns);
    r.expert_scales = r.fill(count);
    const auto got = r.route(0, r.columns);
    BOOST_TEST((got.chosen == plain.chosen));
    for (std::size_t i = 0; i < got.weights.size(); ++i) {
      const double want = double{plain.weights[i]} * r.expert_scales[static_cast<std::size_t>(got.chosen[i])];
      BOOST_TEST_REQUIRE(std::abs(got.weights[i] - want) < 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(other_weightings_are_those_of_f64) {
  using enum kernels::route_weighting;
  for (const std::uint32_t count : {4U, 33U, 128U, 512U}) {
    for (const auto weighting : {selected, all, sigmoid_renormalised, sigmoid}) {
      for (const bool biased : {false, true}) {
        routing r(20, 64, count, count);
        r.weighting = weighting;
        if (biased) r.choice_bias = r.fill(count);
        r.scale = weighting == all ? 1.0F : 1.5F;
        check_weighting(r, r.route(0, r.columns));
        // All scores equal: the lowest ids.
        std::fill(r.router.begin(), r.router.end(), 0.0F);
        std::fill(r.bias.begin(), r.bias.end(), 0.5F);
        std::fill(r.choice_bias.begin(), r.choice_bias.end(), 0.25F);
        const auto equal = r.route(0, 1);
        for (std::uint32_t i = 0; i < r.used; ++i)
          BOOST_TEST(equal.chosen[i] == static_cast<std::int32_t>(i));
      }
    }
  }
}

namespace {

constexpr std::pair<std::uint32_t, std::uint32_t> experts_and_groups[] = {
    {8, 4}, {12, 4}, {66, 33}, {160, 8}, {256, 8}, {512, 256}, {512, 2}};

/// Calls test(routing) for each way of choosing from groups.
template <class Test>
void each_grouped(std::uint32_t columns, const Test& test) {
  using enum kernels::route_weighting;
  for (const auto& [experts, groups] : experts_and_groups) {
    for (const auto weighting : {selected, all, sigmoid_renormalised, sigmoid}) {
      for (const auto ranking : {kernels::group_ranking::best, kernels::group_ranking::two_best}) {
        for (const std::uint32_t used : {(4 * groups + experts - 1) / experts, (groups + 1) / 2, groups}) {
          routing r(columns, 64, experts, experts + groups);
          if (used * (experts / groups) < r.used) continue;
          r.weighting = weighting;
          r.groups = {.count = groups, .used = used, .ranking = ranking};
          r.scale = 2.5F;
          test(r);
          r.choice_bias = r.fill(experts);
          test(r);
        }
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(experts_of_groups_are_those_of_f64_and_of_the_host) {
  each_grouped(6, [](routing r) {
    check_weighting(r, r.route(0, r.columns));
    // Few distinct logits and biases, so that ties of experts and of groups are the rule.
    std::fill(r.router.begin(), r.router.end(), 0.0F);
    for (float& v : r.bias) v = std::round(std::abs(v) * 4.0F);  // sigmoids of both signs have equal sums
    for (float& v : r.choice_bias) v = std::round(v * 2.0F);
    check_with_host(r, r.route(0, 2));
    // Groups in which nothing is wanted, and experts of chosen groups that are not.
    for (std::size_t e = 0; e < r.choice_bias.size(); e += 3)
      r.choice_bias[e] = -std::numeric_limits<float>::infinity();
    check_with_host(r, r.route(0, 2));
  });
}

BOOST_AUTO_TEST_CASE(a_bias_of_minus_infinity_does_not_reach_groups_that_are_left_out) {
  routing r(1, 64, 9, 1);
  r.used = 3;
  r.weighting = kernels::route_weighting::sigmoid;
  r.groups = {.count = 3, .used = 1};
  std::fill(r.router.begin(), r.router.end(), 0.0F);
  std::fill(r.bias.begin(), r.bias.end(), 0.0F);
  r.choice_bias = {0, 0, 0, 0, 0, 0, 1, 1, -std::numeric_limits<float>::infinity()};
  for (const auto ranking : {kernels::group_ranking::best, kernels::group_ranking::two_best}) {
    // The sum of two is large, too.
    r.groups.ranking = ranking;
    const auto got = r.route(0, 1);
    BOOST_TEST(got.chosen == (std::vector<std::int32_t>{6, 7, 8}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(neighbours_change_no_bit_of_a_choice_from_groups) {
  // More rows than blocks, too: their experts are chosen by a kernel of its own.
  for (const std::uint32_t rows : {9U, 300U}) {
    routing r(rows, 2880, 256, 5);
    r.used = 8;
    r.weighting = kernels::route_weighting::sigmoid_renormalised;
    r.groups = {.count = 8, .used = 4};
    r.choice_bias = r.fill(256);
    const auto together = r.route(0, rows);
    for (std::uint32_t m = 0; m < rows; m += 7) {
      const auto alone = r.route(m, 1);
      BOOST_TEST(std::equal(alone.chosen.begin(), alone.chosen.end(), together.chosen.begin() + m * r.used));
      BOOST_TEST(
          std::equal(alone.weights.begin(), alone.weights.end(), together.weights.begin() + m * r.used));
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_that_cannot_be_chosen_from_are_refused) {
  const device_array<float> floats(8 * 64);
  const device_array<std::int32_t> ids(8);
  const device_array<std::uint32_t> arrivals(1);
  kernels::route_args args{floats.data(), floats.data(), 1e-5F,         floats.data(),  nullptr, 64, 8, 4, 1,
                           floats.data(), ids.data(),    floats.data(), arrivals.data()};
  BOOST_TEST(kernels::launch_route(args, {.count = 4, .used = 1}, nullptr) != 0);
  BOOST_TEST(kernels::launch_route(args, {.count = 3, .used = 3}, nullptr) != 0);
  BOOST_TEST(kernels::launch_route(args, {.count = 8, .used = 8}, nullptr) != 0);
}

BOOST_AUTO_TEST_CASE(the_router_matches_f64_and_its_neighbours_change_no_bit) {
  // A block for each row, and more rows than blocks.
  for (const auto& [rows, width, experts] :
       {std::tuple{9U, 2880U, 32U},
        {140U, 2880U, 32U},
        {9U, 5000U, 32U},
        {140U, 5000U, 32U},
        // Groups of sixteen blocks a column, of all columns at once and of some after the others.
        {9U, 2880U, 128U},
        {140U, 2880U, 128U},
        // Tiles of columns by experts, the last ones not full; rows that end within a slab, or a group of 64.
        {300U, 2048U, 128U},
        {361U, 1000U, 33U}}) {
    const routing r(rows, width, experts, 4);
    const auto together = r.route(0, r.columns);
    check_choice(r, together);
    const auto norms = r.norms();
    BOOST_TEST((std::memcmp(together.normed.data(), norms.data(), norms.size() * sizeof(__half)) == 0));
    check_packed_norms(r, norms);
    for (std::uint32_t m = 0; m < r.columns; ++m) {
      const auto alone = r.route(m, 1);
      BOOST_TEST(std::equal(alone.logits.begin(), alone.logits.end(), together.logits.begin() + m * experts),
                 "column " << m);
      const float* x = r.x.data() + std::size_t{m} * width;
      double squares = 0;
      for (std::uint32_t i = 0; i < width; ++i) squares += double{x[i]} * x[i];
      const double scale = 1 / std::sqrt(squares / width + 1e-5);
      for (std::uint32_t e = 0; e < experts; ++e) {
        double want = r.bias[e];
        for (std::uint32_t i = 0; i < width; ++i)
          want += double{r.router[std::size_t{e} * width + i]} * x[i] * scale * r.norm[i];
        BOOST_TEST(std::abs(together.logits[m * experts + e] - want) < 1e-3);
      }
    }
  }
}

// Every expert's pairs keep their order, and are cut into tiles.
BOOST_AUTO_TEST_CASE(pairs_are_sorted_by_expert_in_their_order) {
  std::mt19937_64 random(7);
  for (const auto& [pairs, experts, tile, some] : {std::tuple{1U, 1U, 16U, 1U},
                                                   {31U, 4U, 16U, 4U},
                                                   {1025U, 32U, 64U, 32U},
                                                   {4096U, 128U, 128U, 128U},
                                                   {4096U, 128U, 32U, 3U},
                                                   {10'240U, 20U, 128U, 20U},
                                                   {65'536U, 512U, 16U, 512U},
                                                   {65'536U, 512U, 128U, 1U},
                                                   {2'368U * 128U, 128U, 128U, 0U}}) {
    std::vector<std::int32_t> chosen(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {  // 0: heads of columns, each of which has all of them
      const std::size_t e = some == 0 ? i % experts : random() % some * (experts / some);
      chosen[i] = static_cast<std::int32_t>(e);
    }
    const device_array<std::int32_t> given{std::span<const std::int32_t>(chosen)};
    const device_array<std::int32_t> order(pairs);
    const device_array<kernels::expert_tile> tiles(kernels::sorted_tiles_max(pairs, experts, tile));
    const device_array<std::int32_t> count(1);
    BOOST_REQUIRE_EQUAL(
        kernels::launch_sort_experts(
            {given.data(), pairs, experts, order.data(), tiles.data(), count.data(), tile}, nullptr),
        0);
    std::vector<std::int32_t> want(pairs);
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(),
                     [&](std::int32_t a, std::int32_t b) { return chosen[a] < chosen[b]; });
    BOOST_TEST((order.read() == want), pairs << " pairs of " << experts << " experts");
    const auto cut = tiles.read();
    std::int32_t at = 0;
    for (std::int32_t t = 0; t < count.read().front(); ++t) {
      BOOST_REQUIRE_EQUAL(cut[t].first, at);
      BOOST_REQUIRE_GT(cut[t].count, 0);
      BOOST_REQUIRE_LE(cut[t].count, static_cast<std::int32_t>(tile));
      for (std::int32_t i = 0; i < cut[t].count; ++i)
        BOOST_REQUIRE_EQUAL(chosen[want[at + i]], cut[t].expert);
      at += cut[t].count;
      // A tile is full, or the last of its expert.
      if (cut[t].count < static_cast<std::int32_t>(tile) && at < static_cast<std::int32_t>(pairs))
        BOOST_TEST(chosen[want[at]] != cut[t].expert);
    }
    BOOST_TEST(at == static_cast<std::int32_t>(pairs));
  }
  const device_array<std::int32_t> one(1);
  const device_array<kernels::expert_tile> tile(1);
  BOOST_TEST(kernels::launch_sort_experts(
                 {one.data(), kernels::sorted_pairs_max + 1, 1, one.data(), tile.data(), one.data(), 16},
                 nullptr) != 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
