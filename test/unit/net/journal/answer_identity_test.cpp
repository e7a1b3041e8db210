#include "net/journal/answer_identity.hpp"

#include <boost/test/unit_test.hpp>

#include "net/journal/journal.hpp"
#include "test/support/shared_memory.hpp"

using namespace orcd::net;

BOOST_AUTO_TEST_SUITE(answer_identities)

BOOST_AUTO_TEST_CASE(weights_are_the_same_by_files_by_memory_or_by_digest) {
  const weights_identity own{1, 0, 9};
  BOOST_TEST(are_same(own, {1, 0, 0}));
  BOOST_TEST(are_same(own, {2, 1, 0}));  // maps what this one loaded
  BOOST_TEST(are_same({2, 1, 0}, {3, 1, 0}));
  BOOST_TEST(are_same(own, {2, 0, 9}));
  BOOST_TEST(!are_same(own, {2, 0, 8}));
  BOOST_TEST(!are_same(own, {2, 0, 0}));  // not known yet
  BOOST_TEST(!are_same({}, {}));
}

BOOST_AUTO_TEST_CASE(the_first_part_that_differs_is_told) {
  const answer_identity own{{1, 2, 3}, {5, 0, 0}};
  BOOST_TEST(!difference(own, own).has_value());
  BOOST_TEST(difference(own, {{1, 9, 8}, {5, 0, 0}}).value() == 1U);
  BOOST_TEST(difference(own, {{1, 2}, {5, 0, 0}}).value() == 2U);
  BOOST_TEST(difference(own, {{1, 2, 3}, {6, 0, 0}}).value() == weights_differ);
}

BOOST_AUTO_TEST_CASE(numbers_of_texts_are_never_nothing_and_differ) {
  BOOST_TEST(number_of("") != 0U);
  BOOST_TEST(number_of("a") != number_of("b"));
  BOOST_TEST(number_of(std::vector<std::uint64_t>{1, 23}) != number_of(std::vector<std::uint64_t>{12, 3}));
}

BOOST_AUTO_TEST_CASE(a_journal_knows_who_began_with_its_requests) {
  orcd::test::shared_memory memory(16);
  auto first = memory.open();
  const auto maker = first.enter({7, {1, 2, 0}, 0xABC});
  BOOST_TEST(maker != 0U);
  first.know_digest(maker, 5);
  auto second = memory.open();
  const auto found = second.engine_of(maker);
  BOOST_TEST_REQUIRE(found.has_value());
  BOOST_TEST(found->parts == 7U);
  BOOST_TEST((found->weights == weights_identity{1, 2, 5}));
  BOOST_TEST(found->fingerprint == 0xABCU);
  BOOST_TEST(second.enter({7, {1, 2, 0}, 0xABC}) == maker);
  BOOST_TEST(second.engine_of(maker)->weights.digest == 5U);  // what is known stays known
  BOOST_TEST(second.enter({7, {1, 2, 0}, 0xABD}) != maker);
  BOOST_TEST(!second.engine_of(0).has_value());
  BOOST_TEST(!second.engine_of(maker + 1).has_value());
}

BOOST_AUTO_TEST_CASE(after_very_many_engines_the_oldest_is_not_known_any_more) {
  orcd::test::shared_memory memory(16);
  auto engine = memory.open();
  std::vector<std::uint64_t> makers;
  for (std::uint64_t i = 0; i < 40; ++i) makers.push_back(engine.enter({i, {}, 0}));
  BOOST_TEST(!engine.engine_of(makers.front()).has_value());
  BOOST_TEST(engine.engine_of(makers.back()).value().parts == 39U);
  BOOST_TEST(engine.engine_of(makers.at(10)).value().parts == 10U);
}

BOOST_AUTO_TEST_SUITE_END()
