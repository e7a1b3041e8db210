// The host's router where experts have groups or a bias for the choice, on every x86 level.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <random>

#include "test/support/random_blocks.hpp"
#include "test/support/route_check.hpp"
#include "test/unit/kernels/host/reference.hpp"
#include "test/unit/kernels/host/router.hpp"

namespace {

using namespace orcd;
using kernels::expert_weighting;
using kernels::group_ranking;
using test::router;
using ids = std::vector<std::uint32_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();

BOOST_AUTO_TEST_SUITE(routing)

BOOST_AUTO_TEST_CASE(groups_are_chosen_by_their_two_best_and_experts_inside_them) {
  // Sigmoids of 0: 0.5 each, so that the bias alone ranks. Sums of two best: 1.875, 1.875, 1.5, 2.
  router r{
      .logits = std::vector<float>(12, 0.0F),
      .bias = {0.875F, 0.0F, -0.125F, 0.375F, 0.5F, 0.25F, 0.25F, 0.25F, 0.125F, -0.5F, 0.4375F, 0.5625F}};
  const auto chosen = [&](std::uint32_t groups_used, std::uint32_t used) {
    r.groups = {.count = 4, .used = groups_used};
    const router::result out = r.route(used);
    for (const float weight : out.weights) BOOST_TEST(weight == 0.5F);
    return out.chosen;
  };
  test::on_every_level([&](kernels::host::isa_level) {
    // The best expert of all is in no group that is chosen; with two groups the first of equals is.
    BOOST_TEST(chosen(1, 2) == (ids{11, 10}), boost::test_tools::per_element());
    BOOST_TEST(chosen(2, 4) == (ids{0, 11, 10, 1}), boost::test_tools::per_element());
    BOOST_TEST(chosen(3, 3) == (ids{0, 11, 4}), boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(groups_are_chosen_by_their_best_ties_to_the_lowest) {
  test::on_every_level([](kernels::host::isa_level) {
    router r{.logits = {1.0F, 1.0F, 2.0F, -9.0F, 2.0F, 2.0F, 3.0F, -9.0F},
             .weighting = expert_weighting::all,
             .groups = {.count = 4, .used = 2, .ranking = group_ranking::best}};
    BOOST_TEST(r.route(3).chosen == (ids{6, 2, 3}), boost::test_tools::per_element());
    r.groups.used = 3;
    BOOST_TEST(r.route(3).chosen == (ids{6, 2, 4}), boost::test_tools::per_element());
    r.groups = {.count = 4, .used = 1, .ranking = group_ranking::two_best};
    BOOST_TEST(r.route(2).chosen == (ids{6, 7}), boost::test_tools::per_element());
    r.logits[6] = 2.5F;  // e^2.5 and nothing is less than twice e^2
    BOOST_TEST(r.route(2).chosen == (ids{4, 5}), boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(all_groups_are_the_same_bits_as_none) {
  std::mt19937_64 random(7);
  for (const auto weighting : {expert_weighting::all, expert_weighting::sigmoid_renormalised}) {
    router r{.logits = test::random_floats(64, random), .weighting = weighting, .scale = 2.5F};
    const auto plain = r.route(6);
    for (const auto ranking : {group_ranking::best, group_ranking::two_best}) {
      if (weighting == expert_weighting::all && ranking == group_ranking::two_best) continue;
      r.groups = {.count = 8, .used = 8, .ranking = ranking};
      const auto grouped = r.route(6);
      BOOST_TEST(grouped.chosen == plain.chosen, boost::test_tools::per_element());
      BOOST_TEST(grouped.weights == plain.weights, boost::test_tools::per_element());
    }
  }
}

// Experts of groups that were left out had been given a rank of minus infinity.
BOOST_AUTO_TEST_CASE(a_bias_of_minus_infinity_does_not_reach_groups_that_are_left_out) {
  for (const auto weighting : {expert_weighting::sigmoid, expert_weighting::all}) {
    for (const auto ranking : {group_ranking::two_best, group_ranking::best}) {
      router r{.logits = std::vector<float>(9, 0.0F),
               .bias = {0, 0, 0, 0, 0, 0, 1, 1, -infinity},
               .weighting = weighting,
               .groups = {.count = 3, .used = 1, .ranking = ranking}};
      test::on_every_level([&](kernels::host::isa_level) {
        BOOST_TEST(r.route(3).chosen == (ids{6, 7, 8}), boost::test_tools::per_element());
      });
      r.bias.assign(9, -infinity);
      BOOST_TEST(r.route(3).chosen == (ids{0, 1, 2}), boost::test_tools::per_element());
    }
  }
}

// As on the device, which orders by bits.
BOOST_AUTO_TEST_CASE(nan_is_chosen_last_wherever_it_stands) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  test::on_every_level([&](kernels::host::isa_level) {
    router r{.logits = {nan, 1.0F, nan, 2.0F}, .weighting = expert_weighting::all};
    BOOST_TEST(r.route(3).chosen == (ids{3, 1, 0}), boost::test_tools::per_element());
    r = {.logits = std::vector<float>(4, 0.0F), .bias = {nan, -infinity, 0.5F, nan}};
    BOOST_TEST(r.route(4).chosen == (ids{2, 1, 0, 3}), boost::test_tools::per_element());
    r.groups = {.count = 2, .used = 1, .ranking = group_ranking::best};
    r.bias = {nan, nan, nan, 0.5F};
    BOOST_TEST(r.route(2).chosen == (ids{3, 2}), boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(a_softmax_has_its_bias_added_for_the_choice_alone) {
  // 0.032, 0.643, 0.237, 0.087; the bias brings the fourth before the third.
  router r{.logits = {0.0F, 3.0F, 2.0F, 1.0F},
           .bias = {0.0F, 0.0F, -0.125F, 0.125F},
           .weighting = expert_weighting::all_renormalised};
  test::on_every_level([&](kernels::host::isa_level) {
    const auto got = r.route(2);
    BOOST_TEST(got.chosen == (ids{1, 3}), boost::test_tools::per_element());
    BOOST_TEST(std::abs(got.weights[0] - std::exp(2.0) / (std::exp(2.0) + 1.0)) < 1e-6);
    BOOST_TEST(std::abs(got.weights[1] - 1.0 / (std::exp(2.0) + 1.0)) < 1e-6);
  });
}

BOOST_AUTO_TEST_CASE(every_way_is_that_of_f64) {
  using enum expert_weighting;
  for (const auto& [experts, groups] :
       {std::pair{8U, 1U}, {8U, 4U}, {12U, 4U}, {160U, 8U}, {256U, 8U}, {512U, 256U}, {512U, 2U}}) {
    std::mt19937_64 random(experts + groups);
    for (const auto weighting : {selected, all_renormalised, all, sigmoid_renormalised, sigmoid}) {
      for (const auto ranking : {group_ranking::best, group_ranking::two_best}) {
        for (const bool biased : {false, true}) {
          for (const std::uint32_t of : {(groups + 1) / 2, groups}) {
            router r{.logits = test::random_floats(experts, random),
                     .bias = biased ? test::random_floats(experts, random) : std::vector<float>{},
                     .weighting = weighting,
                     .groups = {.count = groups, .used = of, .ranking = ranking},
                     .scale = 1.5F};
            for (float& logit : r.logits) logit *= 4.0F;
            const auto got = r.route(4);
            test::check_route<std::uint32_t>(r.logits,
                                             {.sigmoids = is_sigmoid(weighting),
                                              .renormalised = renormalises(weighting),
                                              .scale = 1.5,
                                              .groups = r.groups,
                                              .bias = r.bias},
                                             got.chosen, got.weights, 1e-6);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_that_cannot_be_chosen_from) {
  using kernels::groups_take;
  BOOST_TEST(groups_take({}, 8, 8));
  BOOST_TEST(groups_take({.count = 4, .used = 2}, 8, 4));
  BOOST_TEST(groups_take({.count = 256, .used = 256}, 512, 16));
  BOOST_TEST(!groups_take({.count = 4, .used = 2}, 8, 5));
  BOOST_TEST(!groups_take({.count = 3, .used = 2}, 8, 2));
  BOOST_TEST(!groups_take({.count = 8, .used = 8}, 8, 2));
  BOOST_TEST(!groups_take({.count = 4, .used = 5}, 8, 2));
  BOOST_TEST(!groups_take({.count = 4, .used = 0}, 8, 2));
  BOOST_TEST(!groups_take({.count = 0, .used = 1}, 8, 2));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
