// Which answers of a pool manager have the ready callback tried again, and when.
#include "net/status/callback_retry.hpp"

#include <boost/test/unit_test.hpp>

#include "net/http/http_post.hpp"

namespace orcd::net {
namespace {

using std::chrono::milliseconds;

http_answer answer_with(unsigned status, std::string retry_after = {}) {
  http_answer out;
  out.status = status;
  out.retry_after = std::move(retry_after);
  return out;
}

BOOST_AUTO_TEST_SUITE(callback_retry)

BOOST_AUTO_TEST_CASE(what_blames_the_request_is_final) {
  for (const unsigned status : {400U, 401U, 403U, 404U, 409U, 410U, 422U, 431U, 499U}) {
    BOOST_TEST(!may_succeed_later(answer_with(status)), status);
  }
  // 0: nobody listens, or there was no answer in time.
  for (const unsigned status : {0U, 429U, 500U, 502U, 503U, 504U, 599U, 302U}) {
    BOOST_TEST(may_succeed_later(answer_with(status)), status);
  }
}

BOOST_AUTO_TEST_CASE(waits_double_up_to_a_bound) {
  const callback_delays delays{milliseconds(200), milliseconds(1'000)};
  const auto pause = [&](unsigned made) { return callback_pause(delays, made, answer_with(503)).count(); };
  BOOST_TEST(pause(1) == 200);
  BOOST_TEST(pause(2) == 400);
  BOOST_TEST(pause(3) == 800);
  BOOST_TEST(pause(4) == 1'000);
  BOOST_TEST(pause(4'000'000'000) == 1'000);
}

BOOST_AUTO_TEST_CASE(retry_after_counts_within_the_bound) {
  const callback_delays delays;
  const auto pause = [&](std::string retry_after) {
    return callback_pause(delays, 2, answer_with(429, std::move(retry_after))).count();
  };
  BOOST_TEST(pause("3") == 3'000);
  BOOST_TEST(pause("30") == 30'000);
  BOOST_TEST(pause("31") == 30'000);
  BOOST_TEST(pause("18446744073709551615") == 30'000);
  // Less than the usual wait, or no number of seconds.
  for (const char* usual : {"", "0", "-1", "soon", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    BOOST_TEST(pause(usual) == 400, usual);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
