// What a step of more tokens costs, from a few measurements.
#include "gpu/plan/step_costs.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::test {

BOOST_AUTO_TEST_SUITE(step_costs)

BOOST_AUTO_TEST_CASE(without_measurements_no_token_is_cheap) {
  gpu::step_costs costs;
  BOOST_TEST((costs.of(0) == 1.0 && costs.of(1) == 1.0 && costs.of(5) == 5.0));
  costs.add(1, 2.0);
  BOOST_TEST(costs.of(5) == 5.0);
}

BOOST_AUTO_TEST_CASE(between_measurements_they_lie_on_a_line_and_beyond_it_goes_on) {
  gpu::step_costs costs;
  costs.add(1, 0.4);
  costs.add(2, 0.5);
  costs.add(4, 0.6);
  const auto close = [](double a, double b) { return a > b - 1e-9 && a < b + 1e-9; };
  BOOST_TEST((costs.of(1) == 1.0 && close(costs.of(2), 1.25) && close(costs.of(3), 1.375) &&
              close(costs.of(4), 1.5) && close(costs.of(8), 2.0)));
}

BOOST_AUTO_TEST_CASE(more_tokens_never_cost_less) {
  gpu::step_costs costs;
  costs.add(1, 1.0);
  costs.add(2, 0.9);
  costs.add(4, 1.3);
  costs.add(8, 1.2);
  for (unsigned n = 1; n < 40; ++n) BOOST_TEST(costs.of(n + 1) >= costs.of(n));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
