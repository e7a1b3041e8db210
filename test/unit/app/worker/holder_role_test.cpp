// When connections can be had from a holder, and which have been lost: without one.
#include "app/worker/holder_role.hpp"

#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace orcd;
using std::chrono::milliseconds;

}  // namespace

BOOST_AUTO_TEST_SUITE(holder_role)

BOOST_AUTO_TEST_CASE(a_holder_that_has_just_been_started_is_worth_a_moment) {
  const std::string soon = "the holder is not there yet";
  const std::string never = "the holder does not have the serving port";
  struct {
    app::holder_facts facts;
    std::optional<std::string> want;
  } const cases[]{
      {{true, true, true, milliseconds(0)}, std::nullopt},
      {{true, true, false, milliseconds(0)}, never},
      {{false, true, true, milliseconds(499)}, soon},
      // What a holder sent before it was lost is enough, after that.
      {{false, true, true, milliseconds(500)}, std::nullopt},
      {{false, true, false, milliseconds(500)}, never},
      // Nobody has made a socket: there is nothing to wait for.
      {{false, false, true, milliseconds(0)}, std::nullopt},
      {{false, false, false, milliseconds(0)}, never},
  };
  for (const auto& [facts, want] : cases) {
    BOOST_TEST((app::why_not_yet(facts) == want), app::why_not_yet(facts).value_or("now"));
  }
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_counted_by_slot_and_serial) {
  const std::vector<net::held_place> before{{1, 10}, {2, 20}, {3, 30}};
  BOOST_TEST(app::count_missing(before, before) == 0U);
  // The second slot has another connection by now.
  BOOST_TEST(app::count_missing(before, {{3, 30}, {2, 21}}) == 2U);
  BOOST_TEST(app::count_missing({}, before) == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
