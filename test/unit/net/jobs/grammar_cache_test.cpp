#include "net/jobs/grammar_cache.hpp"

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

#include "engine/grammar/program.hpp"

namespace orcd::net {
namespace {

engine::result<grammar_program> of_size(std::size_t bytes) {
  const auto out = std::make_shared<engine::grammar::program>();
  out->bytes = bytes;
  return engine::result<grammar_program>(out);
}

BOOST_AUTO_TEST_SUITE(recent_grammars)

BOOST_AUTO_TEST_CASE(the_least_recently_used_goes_first) {
  grammar_cache cache;
  const auto program = of_size(1'000);
  for (std::size_t i = 0; i < grammar_cache::entries_max; ++i) cache.keep(std::to_string(i), program);
  BOOST_TEST_REQUIRE(cache.find("0").has_value());
  BOOST_TEST(cache.find("0")->value() == *program);
  cache.keep("new", program);
  BOOST_TEST(cache.size() == grammar_cache::entries_max);
  BOOST_TEST(!cache.find("1").has_value());
  BOOST_TEST(cache.find("0").has_value());
}

BOOST_AUTO_TEST_CASE(large_grammars_do_not_pile_up) {
  grammar_cache cache;
  cache.keep("too large", of_size(grammar_cache::bytes_max + 1));
  BOOST_TEST(cache.size() == 0U);
  cache.keep("a", of_size(grammar_cache::bytes_max / 2));
  cache.keep("b", of_size(grammar_cache::bytes_max / 2));
  BOOST_TEST(cache.size() == 2U);
  cache.keep("c", of_size(grammar_cache::bytes_max / 2));
  BOOST_TEST(cache.size() == 2U);
  BOOST_TEST(!cache.find("a").has_value());
}

BOOST_AUTO_TEST_CASE(failures_that_may_pass_are_not_remembered) {
  grammar_cache cache;
  for (const auto code :
       {engine::errc::internal, engine::errc::queue_full, engine::errc::inference_timeout}) {
    cache.keep("k", engine::error(code, "not now"));
    BOOST_TEST(!cache.find("k").has_value());
  }
}

BOOST_AUTO_TEST_CASE(refusals_are_bounded_and_take_no_grammar_away) {
  grammar_cache cache;
  const auto program = of_size(1'000);
  cache.keep("good", program);
  const auto refusal = [](std::size_t bytes) {
    return engine::result<grammar_program>(
        engine::error(engine::errc::invalid_request, std::string(bytes, 'm'), "response_format"));
  };
  for (std::size_t i = 0; i < 2 * grammar_cache::refusals_max; ++i)
    cache.keep(std::to_string(i), refusal(10));
  BOOST_TEST(cache.refusals() == grammar_cache::refusals_max);
  BOOST_TEST(!cache.find("0").has_value());
  BOOST_TEST(cache.find(std::to_string(2 * grammar_cache::refusals_max - 1)).has_value());
  for (std::size_t i = 0; i < 10; ++i)
    cache.keep("long " + std::to_string(i), refusal(grammar_cache::refusal_bytes_max / 4));
  BOOST_TEST(cache.refusals() < 4U);
  cache.keep("huge", refusal(grammar_cache::refusal_bytes_max));
  BOOST_TEST(!cache.find("huge").has_value());
  BOOST_TEST(cache.find("good")->value() == *program);
}

BOOST_AUTO_TEST_CASE(one_request_compiles_a_grammar_and_the_others_hear_of_its_end) {
  grammar_cache cache;
  const auto first = cache.join_work("a");
  BOOST_TEST(first.begun);
  const auto second = cache.join_work("a");
  BOOST_TEST(!second.begun);
  BOOST_TEST((second.what == first.what));
  BOOST_TEST(cache.join_work("b").begun);
  cache.end_work("b");
  BOOST_TEST(!second.what->over);
  first.what->made = of_size(10);
  cache.end_work("a");
  BOOST_TEST(second.what->over);
  BOOST_TEST(second.what->made.has_value());
  BOOST_TEST(cache.join_work("a").begun);  // it may not have been kept
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
