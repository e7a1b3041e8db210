#include "app/pod/quantity.hpp"

#include <boost/test/unit_test.hpp>

using orcd::app::times_quantity;

BOOST_AUTO_TEST_SUITE(quantities)

BOOST_AUTO_TEST_CASE(a_quantity_keeps_its_unit_and_its_point) {
  BOOST_TEST(times_quantity("500m", 2) == "1000m");
  BOOST_TEST(times_quantity("16Gi", 2) == "32Gi");
  BOOST_TEST(times_quantity("1.75", 2) == "3.50");
  BOOST_TEST(times_quantity("9.9G", 9) == "89.1G");
  BOOST_TEST(times_quantity("7", 1) == "7");
  BOOST_TEST(times_quantity("0.5", 2) == "1.0");
}

BOOST_AUTO_TEST_CASE(it_may_be_longer_than_a_number) {
  BOOST_TEST(times_quantity("99999999999999999999999999999999", 2) == "199999999999999999999999999999998");
}

BOOST_AUTO_TEST_SUITE_END()
