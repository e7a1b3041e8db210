// Whether an engine reads, writes or waits at the holder's socket, and how often it asks.
#include "app/weights/claim_turns.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd::app;
using std::chrono::milliseconds;

BOOST_AUTO_TEST_SUITE(claims_of_weights)

BOOST_AUTO_TEST_CASE(an_engine_that_could_load_waits_for_those_that_live) {
  const milliseconds none{0};
  // The first start: nobody lives.
  BOOST_TEST((decide(claim_facts{true, false, false, none}) == claim_turn::write_or_read));
  // Both holder and engine are new, and another engine serves.
  BOOST_TEST((decide(claim_facts{true, true, false, none}) == claim_turn::look_again));
  BOOST_TEST(
      (decide(claim_facts{true, true, false, offer_limit - milliseconds(1)}) == claim_turn::look_again));
  // It has none to offer.
  BOOST_TEST((decide(claim_facts{true, true, false, offer_limit}) == claim_turn::write_or_read));
  // They are there, or on their way.
  BOOST_TEST((decide(claim_facts{true, true, true, none}) == claim_turn::write_or_read));
  // Who never writes waits in the queue anyway.
  BOOST_TEST((decide(claim_facts{false, true, false, none}) == claim_turn::read));
}

BOOST_AUTO_TEST_CASE(weights_of_another_model_are_replaced_by_the_engine_that_loads) {
  BOOST_TEST((decide(stale_facts{false, true, 0}) == stale_turn::refuse));
  BOOST_TEST((decide(stale_facts{false, false, 2}) == stale_turn::refuse));
  BOOST_TEST((decide(stale_facts{true, true, 0}) == stale_turn::replace));
  BOOST_TEST((decide(stale_facts{true, false, 0}) == stale_turn::replace));
  BOOST_TEST((decide(stale_facts{true, true, 1}) == stale_turn::replace));
  BOOST_TEST((decide(stale_facts{true, false, 1}) == stale_turn::load_own));
}

BOOST_AUTO_TEST_CASE(a_holder_that_refuses_is_asked_ever_less_often) {
  BOOST_TEST((next_offer(false, milliseconds(0)) == milliseconds(100)));
  BOOST_TEST((next_offer(false, milliseconds(10'000)) == milliseconds(100)));
  BOOST_TEST((next_offer(true, milliseconds(0)) == milliseconds(100)));
  BOOST_TEST((next_offer(true, milliseconds(100)) == milliseconds(200)));
  BOOST_TEST((next_offer(true, milliseconds(9'000)) == milliseconds(10'000)));
  BOOST_TEST((next_offer(true, milliseconds(10'000)) == milliseconds(10'000)));
}

BOOST_AUTO_TEST_SUITE_END()
