// What is written while jobs run, in which order, and what a read says about the client.
#include "net/jobs/write_order.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

const std::string continues = "HTTP/1.1 100 Continue\r\n\r\n";

BOOST_AUTO_TEST_SUITE(write_orders)

BOOST_AUTO_TEST_CASE(events_are_written_as_they_come_and_the_last_chunk_ends_the_body) {
  BOOST_TEST(plan_write({}, "abc").bytes == "3\r\nabc\r\n");
  BOOST_TEST(plan_write({.over = true}, "abc").bytes == "3\r\nabc\r\n0\r\n\r\n");
  BOOST_TEST(plan_write({.over = true}, "").bytes == "0\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(where_nothing_has_happened_nothing_is_written) {
  BOOST_TEST(plan_write({}, "").bytes == "");
  BOOST_TEST(!plan_write({}, "").final_reply);
}

BOOST_AUTO_TEST_CASE(http_1_0_gets_frames_without_chunks) {
  BOOST_TEST(plan_write({.chunked = false}, "abc").bytes == "abc");
  BOOST_TEST(plan_write({.chunked = false, .over = true}, "").bytes == "");
}

BOOST_AUTO_TEST_CASE(a_client_that_sends_no_more_is_asked_before_the_events) {
  BOOST_TEST(plan_write({.must_ask = true}, "abc").bytes == "3\r\n:\n\n\r\n3\r\nabc\r\n");
  BOOST_TEST(plan_write({.must_ask = true}, "").bytes == "3\r\n:\n\n\r\n");
  BOOST_TEST(plan_write({.chunked = false, .must_ask = true}, "abc").bytes == ":\n\nabc");
}

BOOST_AUTO_TEST_CASE(before_a_reply_it_is_asked_by_an_interim_response) {
  const auto next = plan_write({.streams = false, .must_ask = true}, "");
  BOOST_TEST(next.bytes == continues);
  BOOST_TEST(!next.final_reply);
}

BOOST_AUTO_TEST_CASE(a_reply_is_written_once_the_jobs_are_over_and_asks_by_itself) {
  BOOST_TEST(plan_write({.streams = false}, "").bytes == "");
  BOOST_TEST(!plan_write({.streams = false}, "").final_reply);
  for (const bool ask : {false, true}) {
    const auto next = plan_write({.streams = false, .must_ask = ask, .over = true}, "");
    BOOST_TEST(next.final_reply);
    BOOST_TEST(next.bytes == "");
  }
}

BOOST_AUTO_TEST_CASE(where_nothing_can_be_written_all_is_dropped) {
  for (const bool streams : {false, true}) {
    const auto next =
        plan_write({.streams = streams, .writable = false, .must_ask = true, .over = true}, "abc");
    BOOST_TEST(next.bytes == "");
    BOOST_TEST(!next.final_reply);
  }
}

BOOST_AUTO_TEST_CASE(a_next_request_is_kept_up_to_a_limit) {
  BOOST_TEST((judge_read({}, false, false, pipelined_bytes_max) == client_state::present));
  BOOST_TEST((judge_read({}, false, false, pipelined_bytes_max + 1) == client_state::gone));
}

BOOST_AUTO_TEST_CASE(an_end_of_input_is_half_a_close_where_the_client_can_be_asked) {
  BOOST_TEST((judge_read({}, true, true, 0) == client_state::half_closed));
  BOOST_TEST((judge_read({.chunked = false}, true, true, 0) == client_state::half_closed));
  BOOST_TEST((judge_read({.streams = false}, true, true, 0) == client_state::half_closed));
  // HTTP/1.0 has no interim response.
  BOOST_TEST((judge_read({.streams = false, .chunked = false}, true, true, 0) == client_state::gone));
}

BOOST_AUTO_TEST_CASE(any_other_failure_is_the_end_of_the_client) {
  BOOST_TEST((judge_read({}, false, true, 0) == client_state::gone));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
