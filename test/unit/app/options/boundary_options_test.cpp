// --prefix-boundaries: memory as a share or in MiB.
#include <utility>

#include "test/unit/app/options/parsed_options.hpp"

namespace orcd::test {

BOOST_AUTO_TEST_SUITE(boundary_options)

BOOST_AUTO_TEST_CASE(a_share_has_one_decimal_at_most) {
  const auto share = [](const char* value) {
    const auto budget = taken_options({"--prefix-boundaries", value}).prefix_boundaries;
    BOOST_TEST(!budget.bytes.has_value());
    return budget.thousandths;
  };
  BOOST_TEST(share("12.5%") == 125U);
  BOOST_TEST(share("0%") == 0U);
  BOOST_TEST(share("3%") == 30U);
  BOOST_TEST(share("0.1%") == 1U);
  BOOST_TEST(share("100%") == 1'000U);
  BOOST_TEST(share("100.0%") == 1'000U);
}

BOOST_AUTO_TEST_CASE(a_number_is_mib) {
  const auto bytes = [](const char* value) {
    return taken_options({"--prefix-boundaries", value}).prefix_boundaries.bytes.value();
  };
  BOOST_TEST(bytes("0") == 0U);
  BOOST_TEST(bytes("16777216") == 1ULL << 44U);
}

BOOST_AUTO_TEST_CASE(anything_else_is_refused) {
  for (const char* wrong : {"", "%", "100.1%", "101%", "12.55%", ".5%", "5.%", "-1%", "1 %", "16777217", "-1",
                            "1.5", "1GiB", "auto"})
    BOOST_TEST(contains(refused({"--prefix-boundaries", wrong}), "prefix-boundaries"), wrong);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
