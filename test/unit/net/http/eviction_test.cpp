// Which connections make room for others, and how many an address may have.
#include "net/http/eviction.hpp"

#include <boost/test/unit_test.hpp>

#include "net/http/connection.hpp"

namespace orcd::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using phase = connection_phase;
using places = std::vector<std::size_t>;

BOOST_AUTO_TEST_SUITE(eviction)

BOOST_AUTO_TEST_CASE(who_is_being_answered_stays) {
  const std::vector<eviction_candidate> all = {{phase::request, seconds(1'000)},
                                               {phase::request, seconds(3)}};
  BOOST_TEST(choose_evicted(all, 2).empty());
}

BOOST_AUTO_TEST_CASE(newcomers_have_a_grace) {
  const std::vector<eviction_candidate> all = {{phase::head, milliseconds(1'999)},
                                               {phase::body, milliseconds(0)}};
  BOOST_TEST(choose_evicted(all, 2).empty());
  // Heads can be given less of it, bodies cannot.
  BOOST_TEST((choose_evicted(all, 2, milliseconds(0)) == places{0}));
}

BOOST_AUTO_TEST_CASE(the_longest_idle_go_first) {
  const std::vector<eviction_candidate> all = {{phase::unread, seconds(99)},     {phase::head, seconds(5)},
                                               {phase::body, milliseconds(1)},   {phase::head, seconds(9)},
                                               {phase::body, seconds(20)},       {phase::head, seconds(3)},
                                               {phase::closing, milliseconds(1)}};
  BOOST_TEST((choose_evicted(all, 3) == places{6, 3, 1}));
  BOOST_TEST((choose_evicted(all, 9) == places{6, 3, 1, 5, 4, 2, 0}));
  BOOST_TEST(choose_evicted(all, 0).empty());
}

BOOST_AUTO_TEST_CASE(idle_is_who_waits_for_a_head_of_which_nothing_has_come) {
  BOOST_TEST(is_idle(phase::head, 0, 0));
  BOOST_TEST(!is_idle(phase::head, 1, 0));
  BOOST_TEST(!is_idle(phase::head, 0, 1));
  for (const auto busy : {phase::body, phase::request, phase::unread, phase::closing}) {
    BOOST_TEST(!is_idle(busy, 0, 0));
  }
}

BOOST_AUTO_TEST_CASE(bytes_of_a_body_buy_time) {
  const std::chrono::steady_clock::time_point now{seconds(100)};
  // One byte buys nothing, a second's worth a second, and the largest part no more than the grace.
  BOOST_TEST((next_part_due(now + milliseconds(500), now, 1) == now + milliseconds(500)));
  BOOST_TEST((next_part_due(now, now, body_bytes_per_second_min) == now + seconds(1)));
  BOOST_TEST((next_part_due(now, now, std::uint64_t{1} << 62U) == now + eviction_grace));
  // What was overdue is forgiven when more comes.
  BOOST_TEST((next_part_due(now - seconds(10), now, body_bytes_per_second_min) == now + seconds(1)));
}

BOOST_AUTO_TEST_CASE(a_body_that_stops_is_overdue_however_much_came_before) {
  const std::chrono::steady_clock::time_point begin{seconds(100)};
  auto due = begin + eviction_grace;
  for (int second = 1; second <= 10; ++second) due = next_part_due(due, begin + seconds(second), 1'000'000);
  BOOST_TEST((due == begin + seconds(10) + eviction_grace));
}

BOOST_AUTO_TEST_CASE(one_client_is_one_network) {
  const auto network = [](const char* text) { return network_of(unmapped(asio::ip::make_address(text))); };
  BOOST_TEST(network("10.0.0.1") == "10.0.0.1");
  BOOST_TEST(network("::ffff:10.0.0.1") == "10.0.0.1");
  BOOST_TEST(network("2001:db8::1") == network("2001:db8::ffff:1:2:3"));
  BOOST_TEST(network("2001:db8::1") != network("2001:db8:0:1::1"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
