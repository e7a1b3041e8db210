// Which mixtures of experts the CUDA router takes: refused before anything is uploaded.
#include <boost/test/unit_test.hpp>

#include "kernels/layer/experts.hpp"

namespace orcd::test {

BOOST_AUTO_TEST_SUITE(route_limits)

BOOST_AUTO_TEST_CASE(known_models_fit_and_the_first_past_a_limit_does_not) {
  BOOST_TEST(kernels::route_takes(2880, 32, 4));  // gpt-oss-20b
  BOOST_TEST(kernels::route_takes(2880, 128, 4));
  BOOST_TEST(kernels::route_takes(6144, 8, 2));  // Mixtral 8x22B
  BOOST_TEST(kernels::route_takes(6428, 8, 2));
  BOOST_TEST(!kernels::route_takes(6432, 8, 2));
  BOOST_TEST(kernels::route_takes(11'568, 4, 2));
  BOOST_TEST(!kernels::route_takes(11'572, 4, 2));
  BOOST_TEST(!kernels::route_takes(2882, 32, 4));
  BOOST_TEST(!kernels::route_takes(2880, 513, 4));
  BOOST_TEST(!kernels::route_takes(2880, 32, 17));
  BOOST_TEST(!kernels::route_takes(2880, 4, 5));
  BOOST_TEST(!kernels::route_takes(2880, 32, 0));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
