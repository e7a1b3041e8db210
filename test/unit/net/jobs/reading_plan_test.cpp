// Which bodies are read on the io thread.
#include "net/jobs/reading_plan.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

BOOST_AUTO_TEST_SUITE(reading_plan)

BOOST_AUTO_TEST_CASE(short_bodies_are_read_where_they_arrive) {
  for (const endpoint target :
       {endpoint::execute, endpoint::chat_completions, endpoint::completions, endpoint::embeddings,
        endpoint::tokenize, endpoint::detokenize, endpoint::cancel, endpoint::shutdown}) {
    BOOST_TEST(is_read_at_once(target, 0));
    BOOST_TEST(is_read_at_once(target, 4'096));
    BOOST_TEST(!is_read_at_once(target, 4'097));
    BOOST_TEST(!is_read_at_once(target, 64U << 20U));
  }
}

BOOST_AUTO_TEST_CASE(a_ranking_never_is_because_its_query_counts_many_times) {
  BOOST_TEST(!is_read_at_once(endpoint::rerank, 0));
  BOOST_TEST(!is_read_at_once(endpoint::score, 0));
  BOOST_TEST(!is_read_at_once(endpoint::rerank, 100));
}

BOOST_AUTO_TEST_CASE(elsewhere_very_long_ones_stand_behind_others) {
  BOOST_TEST((reading_length(endpoint::execute, 4'097) == task_length::brief));
  BOOST_TEST((reading_length(endpoint::execute, 128 * 1'024) == task_length::brief));
  BOOST_TEST((reading_length(endpoint::execute, 128 * 1'024 + 1) == task_length::lengthy));
  BOOST_TEST((reading_length(endpoint::rerank, 2 * 1'024) == task_length::brief));
  BOOST_TEST((reading_length(endpoint::rerank, 2 * 1'024 + 1) == task_length::lengthy));
}

BOOST_AUTO_TEST_CASE(media_are_expected_however_their_names_are_spelled) {
  BOOST_TEST(may_have_media(R"({"url":"data:image/png;base64,AAAA"})"));
  BOOST_TEST(may_have_media(R"({"type":"input_audio"})"));
  BOOST_TEST(may_have_media(R"({"url":"data:image/png;bas\u00656\u0034,AAAA"})"));
  BOOST_TEST(may_have_media(R"({"type":"\u0069nput_audio"})"));
  // What clients do escape.
  BOOST_TEST(!may_have_media(R"({"content":"caf\u00e9, \u4f60\u597d, a tab: \u0009, cut: \u00"})"));
  BOOST_TEST(!may_have_media(""));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
