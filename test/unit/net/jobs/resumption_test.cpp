// From the journal's events to what each job's client was told.
#include "net/jobs/resumption.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {

using kind = journal_event::kind;

BOOST_AUTO_TEST_SUITE(resumption)

BOOST_AUTO_TEST_CASE(events_say_what_each_job_has_told) {
  const std::vector<journal_event> events = {
      {1, kind::started, -1}, {0, kind::started, -1},     {1, kind::progress, 40}, {1, kind::progress, 80},
      {1, kind::token, 7},    {1, kind::first_token, 12}, {0, kind::beside, -1},   {1, kind::token, 8}};
  const auto told = told_jobs(events, 3);
  BOOST_TEST_REQUIRE(told.has_value());
  BOOST_TEST(((*told)[1].tokens == std::vector<engine::token_id>{7, 8}));
  BOOST_TEST((*told)[1].point.tokens == 2U);
  BOOST_TEST((*told)[1].point.processed == 80U);
  BOOST_TEST(((*told)[1].first_token == std::chrono::milliseconds(12)));
  BOOST_TEST((*told)[0].point.beside == 1U);
  BOOST_TEST((*told)[0].point.started);
  BOOST_TEST(!(*told)[2].point.started);
  BOOST_TEST(!told_jobs(events, 1).has_value());
}

BOOST_AUTO_TEST_CASE(only_what_is_new_to_the_client_is_an_event) {
  resume_point none, one, two, known;
  one.started = true;
  one.tokens = 1;
  two = one;
  two.tokens = 2;
  const auto first = event_between(4, none, one, known, 99);
  BOOST_TEST_REQUIRE(first.has_value());
  BOOST_TEST((*first == journal_event{4, kind::token, 99}));
  BOOST_TEST(!event_between(4, two, two, known, 99).has_value());
  known.started = true;
  known.tokens = 1;
  BOOST_TEST(!event_between(4, none, one, known, 99).has_value());
  BOOST_TEST(event_between(4, one, two, known, 99).has_value());
  resume_point started;
  started.started = true;
  BOOST_TEST((event_between(0, none, started, {}, -1)->what == kind::started));
  started.processed = 5;
  BOOST_TEST((event_between(0, none, started, known, -1)->what == kind::progress));
}

BOOST_AUTO_TEST_CASE(an_end_that_was_told_is_not_told_again) {
  resume_point before, after;
  after.ended = true;
  BOOST_TEST((event_between(1, before, after, {}, -1)->what == kind::ended));
  const auto told = told_jobs(std::vector<journal_event>{{1, kind::ended, -1}}, 2);
  BOOST_TEST((*told)[1].point.ended);
}

BOOST_AUTO_TEST_CASE(tokens_are_checked_before_they_are_believed) {
  engine::job_request job;
  job.max_tokens = 2;
  BOOST_TEST(are_tokens_of(job, std::vector<engine::token_id>{1, 9}, 10));
  BOOST_TEST(!are_tokens_of(job, std::vector<engine::token_id>{1, 10}, 10));
  BOOST_TEST(!are_tokens_of(job, std::vector<engine::token_id>{-1}, 10));
  BOOST_TEST(!are_tokens_of(job, std::vector<engine::token_id>{1, 2, 3}, 10));
}

BOOST_AUTO_TEST_CASE(only_tokens_whose_log_probabilities_are_not_written_are_computed_again) {
  engine::job_request job;
  told_job told;
  told.tokens = {1, 2, 3};
  told.unwritten = 2;
  BOOST_TEST((taken_tokens(job, told) == 3U));
  job.logprobs = true;
  BOOST_TEST((taken_tokens(job, told) == 1U));
  told.unwritten = 0;
  BOOST_TEST((taken_tokens(job, told) == 3U));
  told.unwritten = 9;
  BOOST_TEST((taken_tokens(job, told) == 0U));
  told.unwritten = all_unwritten;
  BOOST_TEST(!taken_tokens(job, told).has_value());
  told.unwritten = 0;
  job.score_from = 1;
  BOOST_TEST(!taken_tokens(job, told).has_value());
}

BOOST_AUTO_TEST_CASE(the_last_token_says_how_many_values_are_not_written) {
  const auto told = told_jobs(std::vector<journal_event>{{0, kind::token, 7, 0}, {0, kind::token, 8, 2}}, 1);
  BOOST_TEST((*told)[0].unwritten == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
