// --speculate: whether steps check drafts, and how many.
#include <utility>

#include "test/unit/app/options/parsed_options.hpp"

namespace orcd::test {

BOOST_AUTO_TEST_SUITE(speculation_options)

BOOST_AUTO_TEST_CASE(drafts_are_as_many_as_pay_or_none_or_a_number) {
  const auto seen = [](const char* value) {
    const auto o = taken_options({"--speculate", value});
    return std::pair(o.speculate, o.drafts_always);
  };
  BOOST_TEST((seen("auto") == std::pair(true, 0U)));
  BOOST_TEST((seen("off") == std::pair(false, 0U)));
  BOOST_TEST((seen("1") == std::pair(true, 1U)));
  BOOST_TEST((seen("15") == std::pair(true, 15U)));
}

BOOST_AUTO_TEST_CASE(anything_else_is_refused) {
  for (const char* wrong : {"0", "16", "-1", "Auto", "on", "true", " ", ""})
    BOOST_TEST(contains(refused({"--speculate", wrong}), "speculate"), wrong);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
