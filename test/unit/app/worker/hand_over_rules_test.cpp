// When an engine lets another one serve, and what follows, by facts alone.
#include "app/worker/hand_over_rules.hpp"

#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>
#include <vector>

namespace {

using namespace orcd;
using app::rest_turn;
using net::failover_state;
using std::chrono::seconds;

constexpr std::uint32_t self = 1;

/// What the holder says: `standbys` and `active` are what most decisions are by.
net::report_frame says(std::uint32_t standbys, std::uint32_t active, bool settled = true) {
  net::report_frame out;
  out.standbys = standbys;
  out.active = active;
  out.settled = settled;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hand_over_rules)

BOOST_AUTO_TEST_CASE(an_engine_leaves_only_when_nothing_is_lost_by_it) {
  const app::leaving_facts good{failover_state::active, true, true, 0};
  BOOST_TEST(!app::hand_over_problem(good).has_value());
  struct {
    app::leaving_facts facts;
    std::string words;
  } const cases[]{
      {{failover_state::standby, true, true, 0}, "the engine is STANDBY"},
      {{failover_state::yielding, true, true, 0}, "the engine is YIELDING"},
      {{failover_state::active, false, true, 0}, "does not take requests"},
      {{failover_state::active, true, false, 0}, "no holder"},
      {{failover_state::active, true, true, 3}, "3 connections would be lost"},
  };
  for (const auto& [facts, words] : cases) {
    const auto why = app::hand_over_problem(facts);
    BOOST_TEST_REQUIRE(why.has_value(), words);
    BOOST_TEST(why->find(words) != std::string::npos, *why);
  }
}

BOOST_AUTO_TEST_CASE(it_leaves_to_engines_that_answer_as_it_does_and_to_no_others) {
  BOOST_TEST(!app::hand_over_problem(std::optional(says(1, self))).has_value());
  BOOST_TEST(app::hand_over_problem(std::optional<net::report_frame>()).value() ==
             "the holder does not answer");
  BOOST_TEST(app::hand_over_problem(std::optional(says(0, self))).value() ==
             "no engine stands by that would answer as this one does");
  // One that differs might get the lock first.
  auto mixed = says(1, self);
  mixed.others = 1;
  BOOST_TEST(
      app::hand_over_problem(std::optional(mixed)).value().find("could be the next: one differs in ") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(nobody_and_itself_are_no_other_engine) {
  BOOST_TEST(!app::is_another(net::no_engine, self));
  BOOST_TEST(!app::is_another(self, self));
  BOOST_TEST(app::is_another(0, self));
}

BOOST_AUTO_TEST_CASE(an_engine_that_left_waits_until_it_knows_who_follows) {
  struct {
    std::optional<net::report_frame> report;
    bool rests;
    seconds waited;
    rest_turn want;
  } const cases[]{
      // Another one serves, and has all; but this one still has sessions.
      {says(0, 0), true, seconds(0), rest_turn::followed},
      {says(0, 0), false, seconds(0), rest_turn::look_again},
      // It serves, and has not settled: it may die before it has everything.
      {says(0, 0, false), true, seconds(0), rest_turn::look_again},
      // Somebody is about to ask for the lock; nobody is.
      {says(1, net::no_engine), true, seconds(0), rest_turn::look_again},
      {says(0, net::no_engine), true, seconds(0), rest_turn::alone},
      // Without a word of the holder there is only the time.
      {std::nullopt, true, seconds(5), rest_turn::look_again},
      {std::nullopt, true, seconds(6), rest_turn::alone},
      {says(1, net::no_engine), true, seconds(6), rest_turn::alone},
      // What does not end.
      {says(0, 0), false, seconds(90), rest_turn::look_again},
      {says(0, 0), false, seconds(91), rest_turn::stuck},
  };
  for (const auto& [report, rests, waited, want] : cases) {
    const bool as_wanted = app::decide(app::rest_facts{report, self, rests, waited}) == want;
    BOOST_TEST(as_wanted, "turn " << static_cast<int>(want) << " after " << waited.count() << " s");
  }
}

BOOST_AUTO_TEST_CASE(only_another_engine_that_has_settled_lets_this_one_just_end) {
  BOOST_TEST(app::was_followed(says(0, 0), self));
  BOOST_TEST(!app::was_followed(says(0, 0, false), self));
  BOOST_TEST(!app::was_followed(says(0, self), self));
  BOOST_TEST(!app::was_followed(std::nullopt, self));
}

BOOST_AUTO_TEST_SUITE_END()
