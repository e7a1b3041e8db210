#include <boost/test/unit_test.hpp>

#include "engine/base/narration.hpp"
#include "engine/worker_state.hpp"

using namespace orcd::engine;

BOOST_AUTO_TEST_SUITE(worker_facts)

// FIPS 180-4 examples.
BOOST_AUTO_TEST_CASE(a_prompt_digest_is_sha256) {
  BOOST_TEST(prompt_digest("abc") ==
             "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(prompt_digest("") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

BOOST_AUTO_TEST_CASE(states_have_their_wire_names) {
  BOOST_TEST(to_string(lifecycle::starting) == "starting");
  BOOST_TEST(to_string(lifecycle::ready) == "ready");
  BOOST_TEST(to_string(lifecycle::busy) == "busy");
  BOOST_TEST(to_string(lifecycle::draining) == "draining");
  BOOST_TEST(to_string(lifecycle::failed) == "failed");
  BOOST_TEST(to_string(health_status::healthy) == "healthy");
  BOOST_TEST(to_string(health_status::degraded) == "degraded");
  BOOST_TEST(to_string(health_status::unhealthy) == "unhealthy");
}

BOOST_AUTO_TEST_CASE(a_shortage_hides_nothing_worse_and_its_end_heals_nothing_else) {
  worker_state state;
  BOOST_TEST((status_of(state.cause()) == health_status::healthy));
  state.degrade();
  BOOST_TEST((status_of(state.cause()) == health_status::degraded));
  state.recover();
  BOOST_TEST((status_of(state.cause()) == health_status::healthy));
  for (const auto worse :
       {health_cause::handler_out_of_memory, health_cause::not_resident, health_cause::lost}) {
    state.degrade();
    state.fail(worse);
    state.degrade();
    state.recover();
    BOOST_TEST((state.cause() == worse));
    BOOST_TEST((status_of(worse) == health_status::unhealthy));
    BOOST_TEST(!describe(worse).empty());
  }
}

BOOST_AUTO_TEST_CASE(an_absent_holder_is_told_unless_something_else_is_and_for_as_long_as_it_is_absent) {
  worker_state state;
  state.set_holder(false);
  BOOST_TEST((state.cause() == health_cause::holder_away));
  BOOST_TEST((status_of(state.cause()) == health_status::degraded));
  state.degrade();
  BOOST_TEST((state.cause() == health_cause::job_out_of_memory));
  state.recover();
  BOOST_TEST((state.cause() == health_cause::holder_away));
  state.set_holder(true);
  BOOST_TEST((state.cause() == health_cause::none));
  state.set_holder(false);
  state.fail(health_cause::lost);
  BOOST_TEST((state.cause() == health_cause::lost));
}

BOOST_AUTO_TEST_SUITE_END()
