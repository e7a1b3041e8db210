// What a session makes of a read: go on, close, or say why not.
#include "net/server/read_decisions.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

BOOST_AUTO_TEST_SUITE(read_decisions)

BOOST_AUTO_TEST_CASE(a_head_that_comes_is_read_on) {
  BOOST_TEST((judge_head_read({}) == read_result::ok));
  BOOST_TEST((judge_head_read({.bytes = 100}) == read_result::ok));
}

BOOST_AUTO_TEST_CASE(a_client_that_closes_gets_no_answer) {
  BOOST_TEST((judge_head_read({.failed = true}) == read_result::closed));
  BOOST_TEST((judge_head_read({.failed = true, .bytes = 7}) == read_result::closed));
}

BOOST_AUTO_TEST_CASE(half_a_head_at_the_time_limit_is_told_and_silence_is_closed) {
  BOOST_TEST((judge_head_read({.failed = true, .late = true, .bytes = 7}) == read_result::too_slow));
  BOOST_TEST((judge_head_read({.failed = true, .late = true}) == read_result::closed));
  // Closed on this side meanwhile, to make room: there is nobody to tell.
  BOOST_TEST(
      (judge_head_read({.failed = true, .late = true, .open = false, .bytes = 7}) == read_result::closed));
}

BOOST_AUTO_TEST_CASE(bytes_that_come_with_the_time_limit_are_late_too) {
  BOOST_TEST((judge_head_read({.late = true, .bytes = 7}) == read_result::too_slow));
}

BOOST_AUTO_TEST_CASE(a_body_is_whole_late_malformed_or_lost) {
  BOOST_TEST((judge_body_read({}) == read_result::ok));
  // It was whole in time, whatever the clock says now.
  BOOST_TEST((judge_body_read({.late = true}) == read_result::ok));
  BOOST_TEST((judge_body_read({.failed = true, .late = true}) == read_result::too_slow));
  BOOST_TEST((judge_body_read({.failed = true, .malformed = true}) == read_result::invalid));
  BOOST_TEST((judge_body_read({.failed = true}) == read_result::closed));
  BOOST_TEST((judge_body_read({.failed = true, .late = true, .open = false}) == read_result::closed));
}

BOOST_AUTO_TEST_CASE(only_what_can_be_answered_is_a_refusal) {
  BOOST_TEST(is_refusal(read_result::too_slow));
  BOOST_TEST(is_refusal(read_result::invalid));
  BOOST_TEST(!is_refusal(read_result::ok));
  BOOST_TEST(!is_refusal(read_result::closed));
}

BOOST_AUTO_TEST_CASE(a_refused_requests_body_is_skipped_when_it_is_here) {
  BOOST_TEST((judge_unwanted_body({}, 0, true) == unwanted_body::none));
  BOOST_TEST((judge_unwanted_body({}, 50, true) == unwanted_body::none));  // a next request
  BOOST_TEST((judge_unwanted_body(10, 10, false) == unwanted_body::skip));
  BOOST_TEST((judge_unwanted_body(10, 60, false) == unwanted_body::skip));
}

BOOST_AUTO_TEST_CASE(a_refused_requests_body_that_is_on_its_way_closes_the_connection) {
  BOOST_TEST((judge_unwanted_body(10, 9, false) == unwanted_body::close));
  BOOST_TEST((judge_unwanted_body({}, 50, false) == unwanted_body::close));  // chunked: its end is not known
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
