// How many connections fit beside the worker's own descriptors.
#include "app/process/descriptor_plan.hpp"

#include <boost/test/unit_test.hpp>

using orcd::app::connections_min;
using orcd::app::plan_descriptors;

BOOST_AUTO_TEST_SUITE(descriptors)

BOOST_AUTO_TEST_CASE(a_limit_that_suffices_stays_as_it_is) {
  const auto plan = plan_descriptors({4096, 65'536, 20, 32}, 1024);
  BOOST_TEST(plan.soft == 4096U);
  BOOST_TEST(plan.connections == 1024U);
  BOOST_TEST(plan.enough);
}

BOOST_AUTO_TEST_CASE(the_soft_limit_is_raised_to_what_is_needed_and_no_further) {
  const auto plan = plan_descriptors({1024, 65'536, 20, 32}, 10'000);
  BOOST_TEST(plan.soft == 10'052U);
  BOOST_TEST(plan.connections == 10'000U);
}

BOOST_AUTO_TEST_CASE(connections_are_limited_to_what_the_hard_limit_leaves) {
  const auto plan = plan_descriptors({256, 512, 20, 32}, 1024);
  BOOST_TEST(plan.soft == 512U);
  BOOST_TEST(plan.connections == 512U - 52U);
  BOOST_TEST(plan.enough);
}

BOOST_AUTO_TEST_CASE(too_few_to_serve_is_not_enough) {
  BOOST_TEST(plan_descriptors({52 + connections_min, 52 + connections_min, 20, 32}, 1024).enough);
  BOOST_TEST(!plan_descriptors({51 + connections_min, 51 + connections_min, 20, 32}, 1024).enough);
  const auto none = plan_descriptors({8, 8, 20, 32}, 1024);
  BOOST_TEST(none.connections == 0U);
  BOOST_TEST(!none.enough);
}

BOOST_AUTO_TEST_CASE(who_asks_for_few_gets_few) {
  const auto plan = plan_descriptors({64, 64, 20, 32}, 8);
  BOOST_TEST(plan.connections == 8U);
  BOOST_TEST(plan.enough);
}

BOOST_AUTO_TEST_CASE(a_soft_limit_above_the_hard_one_is_left_alone) {
  BOOST_TEST(plan_descriptors({100, 50, 20, 32}, 1024).soft == 100U);
}

BOOST_AUTO_TEST_SUITE_END()
