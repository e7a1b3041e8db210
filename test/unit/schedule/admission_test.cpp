#include "engine/schedule/admission.hpp"

#include <boost/test/unit_test.hpp>

using namespace orcd::engine;

namespace {

errc refused(admission& gate, const std::string& id) {
  const auto entered = gate.enter(id);
  BOOST_REQUIRE(entered.has_error());
  BOOST_TEST(!entered.error().message.empty());
  return entered.error().code;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(admission_rules)

BOOST_AUTO_TEST_CASE(slots_and_queue_are_counted_together) {
  admission gate({.slots = 2, .max_queue = 1});
  BOOST_TEST(gate.enter("a").has_value());
  BOOST_TEST(gate.running() == 1U);
  BOOST_TEST(gate.enter("b").has_value());
  BOOST_TEST(gate.enter("c").has_value());
  BOOST_TEST(gate.running() == 2U);
  BOOST_TEST(gate.waiting() == 1U);
  const auto full = gate.enter("d");
  BOOST_REQUIRE(full.has_error());
  BOOST_TEST((full.error().code == errc::queue_full));
  BOOST_TEST(full.error().message ==
             "the worker is full: 2 of 2 slots in use and 1 of 1 places in the queue taken");
  BOOST_TEST(!gate.contains("d"));
  gate.leave("a");
  BOOST_TEST(gate.enter("d").has_value());
}

BOOST_AUTO_TEST_CASE(a_queue_of_zero_refuses_beyond_the_slots) {
  admission gate({.slots = 1, .max_queue = 0});
  BOOST_TEST(gate.enter("a").has_value());
  BOOST_TEST((refused(gate, "b") == errc::queue_full));
}

BOOST_AUTO_TEST_CASE(an_id_is_refused_while_its_job_lives) {
  admission gate({.slots = 1, .max_queue = 8});
  BOOST_TEST(gate.enter("a").has_value());
  const auto again = gate.enter("a");
  BOOST_REQUIRE(again.has_error());
  BOOST_TEST((again.error().code == errc::duplicate_job));
  BOOST_TEST(again.error().param == "job_id");
  BOOST_TEST(again.error().message.find("'a'") != std::string::npos);
  gate.leave("a");
  BOOST_TEST(gate.enter("a").has_value());
}

BOOST_AUTO_TEST_CASE(a_reserved_name_is_no_job_and_no_job_gets_it) {
  admission gate({.slots = 1, .max_queue = 0});
  BOOST_TEST(gate.reserve("group").has_value());
  BOOST_TEST(gate.running() == 0U);
  BOOST_TEST((refused(gate, "group") == errc::duplicate_job));
  BOOST_TEST(gate.reserve("group").has_error());
  BOOST_TEST(gate.enter("a").has_value());
  BOOST_TEST(gate.reserve("a").has_error());
  gate.unreserve("group");
  gate.leave("a");
  BOOST_TEST(gate.enter("group").has_value());
}

BOOST_AUTO_TEST_CASE(a_duplicate_is_named_as_such_even_when_full) {
  admission gate({.slots = 1, .max_queue = 0});
  BOOST_TEST(gate.enter("a").has_value());
  BOOST_TEST((refused(gate, "a") == errc::duplicate_job));
}

BOOST_AUTO_TEST_CASE(draining_refuses_and_tells_when_the_last_job_left) {
  admission gate({.slots = 2, .max_queue = 0});
  int idle = 0;
  gate.on_idle([&] { ++idle; });
  BOOST_TEST(gate.enter("a").has_value());
  BOOST_TEST(gate.enter("b").has_value());
  gate.drain();
  BOOST_TEST((refused(gate, "c") == errc::draining));
  gate.leave("a");
  gate.leave("unknown");
  BOOST_TEST(idle == 0);
  gate.leave("b");
  BOOST_TEST(idle == 1);
  gate.leave("b");
  gate.drain();
  BOOST_TEST(idle == 1);
}

BOOST_AUTO_TEST_CASE(the_last_place_is_for_an_owner_without_a_job) {
  admission gate({.slots = 1, .max_queue = 2});
  BOOST_TEST_REQUIRE(gate.enter("a1", "a").has_value());
  BOOST_TEST_REQUIRE(gate.enter("a2", "a").has_value());
  BOOST_TEST((gate.enter("a3", "a").error().code == errc::queue_full));
  BOOST_TEST_REQUIRE(gate.enter("b1", "b").has_value());
  BOOST_TEST((gate.enter("c1", "c").error().code == errc::queue_full));
  gate.leave("b1");
  BOOST_TEST((gate.enter("a3", "a").error().code == errc::queue_full));
  gate.leave("a1");
  gate.leave("a2");
  BOOST_TEST(gate.enter("a3", "a").has_value());
  // Nobody's jobs take all places, and a worker of one place serves everybody in turn.
  admission open({.slots = 1, .max_queue = 1});
  BOOST_TEST(open.enter("1").has_value());
  BOOST_TEST(open.enter("2").has_value());
  admission narrow({.slots = 1, .max_queue = 0});
  BOOST_TEST(narrow.enter("a1", "a").has_value());
}

BOOST_AUTO_TEST_CASE(an_answer_that_is_written_takes_no_place_but_is_waited_for) {
  admission gate({.slots = 1, .max_queue = 0});
  int idle = 0;
  gate.on_idle([&] { ++idle; });
  BOOST_TEST_REQUIRE(gate.enter("a").has_value());
  gate.begin_answer();
  gate.leave("a");
  BOOST_TEST_REQUIRE(gate.enter("a").has_value());
  gate.begin_answer();
  gate.drain();
  gate.leave("a");
  gate.end_answer();
  BOOST_TEST(idle == 0);
  gate.end_answer();
  BOOST_TEST(idle == 1);
}

BOOST_AUTO_TEST_CASE(the_idle_handler_is_called_at_once_when_nothing_is_left) {
  admission gate({.slots = 1, .max_queue = 0});
  int idle = 0;
  gate.drain();
  gate.on_idle([&] { ++idle; });
  BOOST_TEST(idle == 1);

  admission other({.slots = 1, .max_queue = 0});
  other.on_idle([&] { ++idle; });
  BOOST_TEST(idle == 1);  // idle, but not draining
  other.drain();
  BOOST_TEST(idle == 2);
}

BOOST_AUTO_TEST_CASE(the_queue_is_cut_so_that_all_jobs_fit_the_hard_cap) {
  admission gate({.slots = 4, .max_queue = 0xFFFF'FFFF});
  for (std::uint32_t i = 0; i < jobs_max; ++i) BOOST_REQUIRE(gate.enter(std::to_string(i)).has_value());
  BOOST_TEST((refused(gate, "one more") == errc::queue_full));
}

BOOST_AUTO_TEST_SUITE_END()
