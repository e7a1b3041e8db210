// Whether a connection may serve another request: what the head of an answer promises, and what is kept.
#include "net/http/keep_alive.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

BOOST_AUTO_TEST_SUITE(keep_alive)

BOOST_AUTO_TEST_CASE(a_head_promises_what_the_request_asks_for) {
  BOOST_TEST(may_keep_alive(answer_begin{}));
  BOOST_TEST(!may_keep_alive(answer_begin{.wanted = false}));
  BOOST_TEST(!may_keep_alive(answer_begin{.draining = true}));
}

BOOST_AUTO_TEST_CASE(a_stream_of_http_1_0_ends_by_closing_and_a_reply_of_it_does_not) {
  BOOST_TEST(may_keep_alive(answer_begin{.streams = true}));
  BOOST_TEST(may_keep_alive(answer_begin{.http_1_0 = true}));
  BOOST_TEST(!may_keep_alive(answer_begin{.streams = true, .http_1_0 = true}));
}

BOOST_AUTO_TEST_CASE(a_reply_closes_when_it_says_so_and_on_a_reserved_connection) {
  BOOST_TEST(keeps_alive(reply_end{}));
  BOOST_TEST(!keeps_alive(reply_end{.begin = {.wanted = false}}));
  BOOST_TEST(!keeps_alive(reply_end{.reply_closes = true}));
  BOOST_TEST(!keeps_alive(reply_end{.reserved = true}));
}

BOOST_AUTO_TEST_CASE(the_reply_of_jobs_that_have_not_all_ended_is_the_last_on_its_connection) {
  BOOST_TEST(may_keep_alive(final_reply_head{.promised = true}));
  BOOST_TEST(!may_keep_alive(final_reply_head{}));
  BOOST_TEST(!may_keep_alive(final_reply_head{.promised = true, .reply_closes = true}));
  BOOST_TEST(!may_keep_alive(final_reply_head{.promised = true, .jobs_over = false}));
}

BOOST_AUTO_TEST_CASE(after_a_stream_only_a_good_end_keeps_the_connection) {
  const jobs_end good{.promised = true, .streams = true, .completed = true};
  BOOST_TEST(keeps_alive(good));
  jobs_end failed = good;
  failed.completed = false;
  BOOST_TEST(!keeps_alive(failed));
  // A single reply has said in its own head what follows it, whatever became of the jobs.
  failed.streams = false;
  BOOST_TEST(keeps_alive(failed));
}

BOOST_AUTO_TEST_CASE(whatever_the_end_nothing_is_kept_for_a_client_that_is_gone) {
  const jobs_end good{.promised = true, .streams = true, .completed = true};
  for (bool jobs_end::*const reason : {&jobs_end::client_gone, &jobs_end::half_closed, &jobs_end::stopping}) {
    jobs_end end = good;
    end.*reason = true;
    BOOST_TEST(!keeps_alive(end));
  }
  jobs_end unpromised = good;
  unpromised.promised = false;
  BOOST_TEST(!keeps_alive(unpromised));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
