// Which connections make room for others, and whose.
#include "net/http/eviction.hpp"

#include <boost/test/unit_test.hpp>

#include "net/http/connection.hpp"

namespace orcd::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using phase = connection_phase;
using places = std::vector<std::size_t>;

const eviction_asker nobody_yet{};
const eviction_asker with_a_head{.has_head = true};

/// Connections of several clients, each with a place.
struct crowd {
  place_shares shares{64};  // of which one is few, and eight are kept
  std::vector<eviction_candidate> all;

  void add(const char* network, const char* tenant, eviction_candidate one) {
    shares.join(one.claim, network, tenant);
    shares.set_place(one.claim, true);
    all.push_back(one);
  }
  void add_many(std::size_t count, const char* network, const char* tenant, const eviction_candidate& one) {
    for (std::size_t i = 0; i < count; ++i) add(network, tenant, one);
  }
  [[nodiscard]] places chosen(std::size_t wanted, const char* network, const char* tenant = "",
                              bool has_head = true) const {
    const auto claim = shares.find(network, tenant);
    return choose_evicted(all, wanted, {claim, has_head, shares.is_beyond_few(claim), shares.few()});
  }
};

/// A body that comes as it should.
eviction_candidate steady(std::uint64_t pace) {
  return {phase::body, milliseconds(-900), pace};
}

BOOST_AUTO_TEST_SUITE(eviction)

BOOST_AUTO_TEST_CASE(who_is_being_answered_stays) {
  const std::vector<eviction_candidate> all = {{phase::request, seconds(1'000)},
                                               {phase::request, seconds(3)}};
  BOOST_TEST(choose_evicted(all, 2, nobody_yet).empty());
}

BOOST_AUTO_TEST_CASE(newcomers_have_a_grace) {
  const std::vector<eviction_candidate> all = {{phase::head, milliseconds(1'999)},
                                               {phase::body, milliseconds(0)}};
  BOOST_TEST(choose_evicted(all, 2, nobody_yet).empty());
  // Heads can be given less of it, bodies cannot.
  BOOST_TEST((choose_evicted(all, 2, with_a_head) == places{0}));
}

BOOST_AUTO_TEST_CASE(the_longest_idle_go_first) {
  const std::vector<eviction_candidate> all = {{phase::unread, seconds(99)},     {phase::head, seconds(5)},
                                               {phase::body, milliseconds(1)},   {phase::head, seconds(9)},
                                               {phase::body, seconds(20)},       {phase::head, seconds(3)},
                                               {phase::closing, milliseconds(1)}};
  BOOST_TEST((choose_evicted(all, 3, nobody_yet) == places{6, 3, 1}));
  BOOST_TEST((choose_evicted(all, 9, nobody_yet) == places{6, 3, 1, 5, 4, 2, 0}));
  BOOST_TEST(choose_evicted(all, 0, nobody_yet).empty());
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

BOOST_AUTO_TEST_CASE(of_bodies_that_come_alike_the_oldest_is_the_slowest) {
  // A byte more than the least rate, for a second and for twenty.
  const auto of_second = [](int n) {
    return body_pace(static_cast<std::uint64_t>(n) * (body_bytes_per_second_min + 1), seconds(n));
  };
  BOOST_TEST(of_second(20) < of_second(1));
  BOOST_TEST(of_second(20) > body_bytes_per_second_min);
  // One that has just begun is not slow, and one that stands becomes so.
  BOOST_TEST(body_pace(0, milliseconds(0)) > of_second(1));
  BOOST_TEST(body_pace(0, seconds(20)) < of_second(20));
  BOOST_TEST(body_pace(~std::uint64_t{0}, seconds(20)) > body_pace(1U << 30U, seconds(20)));
}

BOOST_AUTO_TEST_CASE(one_address_that_floods_makes_room_for_all_others) {
  crowd c;
  c.add("10.0.0.9", "", steady(100));  // an honest upload, and the slowest of all
  c.add_many(3, "10.0.0.1", "", steady(5'000));
  c.add("10.0.0.1", "", steady(4'500));
  BOOST_TEST((c.chosen(1, "10.0.0.2") == places{4}));
  // Whose upload is on its way may have another, too, but not at the cost of one like him.
  BOOST_TEST((c.chosen(9, "10.0.0.9") == places{4, 1}));
  // The one that floods has nothing of it, nor has anybody before its head is here.
  BOOST_TEST(c.chosen(9, "10.0.0.1").empty());
  BOOST_TEST(c.chosen(9, "10.0.0.2", "", false).empty());
}

BOOST_AUTO_TEST_CASE(a_slow_upload_is_not_closed_for_somebody_with_more) {
  crowd c;
  c.add("10.0.0.9", "", {phase::body, seconds(20)});
  c.add("10.0.0.8", "", {phase::unread, seconds(20)});
  c.add("10.0.0.7", "", {phase::head, milliseconds(1)});
  c.add_many(4, "10.0.0.1", "", steady(5'000));
  BOOST_TEST(c.chosen(9, "10.0.0.1").empty());
  // Not for a newcomer either, while there is a share that is larger; then as ever.
  BOOST_TEST((c.chosen(1, "10.0.0.2") == places{3}));
  BOOST_TEST((c.chosen(9, "10.0.0.2") == places{3, 4, 5, 2, 0, 1}));
}

BOOST_AUTO_TEST_CASE(of_many_addresses_the_largest_go_first) {
  crowd c;
  c.add_many(2, "10.0.0.1", "", steady(4'500));
  c.add_many(4, "10.0.0.2", "", steady(9'000));
  c.add_many(3, "10.0.0.3", "", steady(7'000));
  c.add("10.0.0.4", "", steady(10));
  // Down to one of each, whatever their pace: then nobody has more than the one who asks.
  BOOST_TEST((c.chosen(99, "10.0.0.5") == places{2, 6, 3, 0, 7, 4}));
}

BOOST_AUTO_TEST_CASE(among_many_addresses_with_one_connection_each_it_is_as_without_shares) {
  crowd c;
  c.add("10.0.0.1", "", steady(4'500));
  c.add("10.0.0.2", "", {phase::body, seconds(1)});
  c.add("10.0.0.3", "", {phase::body, seconds(2)});
  c.add("10.0.0.4", "", {phase::head, seconds(3)});
  c.add("10.0.0.5", "", {phase::head, milliseconds(3)});
  BOOST_TEST((c.chosen(9, "10.0.0.6") == places{3, 4, 2, 1}));
  BOOST_TEST((c.chosen(9, "10.0.0.6", "", false) == places{3, 2, 1}));
}

BOOST_AUTO_TEST_CASE(a_key_is_a_share_from_however_many_addresses) {
  crowd c;
  c.add("10.0.0.1", "b", steady(10));
  for (const char* from : {"10.0.0.1", "10.0.0.2", "10.0.0.3"}) c.add(from, "a", steady(4'500));
  BOOST_TEST((c.chosen(9, "10.0.0.1", "c") == places{1, 2}));
  BOOST_TEST(c.chosen(9, "10.0.0.7", "a").empty());
  // Names of tenants are no addresses.
  c.add("10.0.0.1", "10.0.0.1", steady(4'500));
  BOOST_TEST(c.shares.find("10.0.0.1").whole == nullptr);
}

BOOST_AUTO_TEST_CASE(of_one_key_the_address_that_floods_makes_room) {
  crowd c;
  c.add("10.0.0.9", "a", steady(10));
  c.add_many(4, "10.0.0.1", "a", steady(4'500));
  BOOST_TEST((c.chosen(1, "10.0.0.2", "a") == places{1}));
  BOOST_TEST((c.chosen(1, "10.0.0.2", "b") == places{1}));
  BOOST_TEST((c.chosen(9, "10.0.0.9", "a") == places{1, 2}));
  BOOST_TEST(c.chosen(9, "10.0.0.1", "a").empty());
}

BOOST_AUTO_TEST_CASE(a_key_that_is_shown_behind_a_proxy_is_no_part_of_its_address) {
  crowd c;
  c.add_many(5, "10.0.0.1", "a", steady(4'500));
  c.add_many(3, "10.0.0.1", "b", steady(100));
  BOOST_TEST((c.chosen(2, "10.0.0.1", "c") == places{0, 1}));
  BOOST_TEST((c.chosen(9, "10.0.0.1", "b") == places{0}));
}

BOOST_AUTO_TEST_CASE(of_unread_answers_those_of_the_largest_share_go_first) {
  crowd c;
  c.add("10.0.0.9", "", {phase::unread, seconds(20)});
  c.add_many(2, "10.0.0.1", "", {phase::unread, seconds(3)});
  BOOST_TEST((choose_evicted(c.all, 3, {.few = 1}) == places{1, 2, 0}));
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_not_had_by_closing_those_with_few) {
  crowd c;
  c.add_many(57, "10.0.0.1", "", {phase::request, seconds(1)});
  c.add_many(7, "10.0.0.2", "", {phase::head, seconds(5)});
  c.add("10.0.0.3", "", {phase::closing, seconds(5)});
  const auto claim = c.shares.find("10.0.0.1");
  BOOST_TEST(c.shares.is_beyond_few(claim));
  // Others that are beyond few may be closed for it, and its own.
  BOOST_TEST((c.chosen(2, "10.0.0.1") == places{57, 58}));
  c.all[5].phase = phase::closing;
  BOOST_TEST((c.chosen(1, "10.0.0.1") == places{5}));
  BOOST_TEST((c.chosen(2, "10.0.0.4") == places{64, 5}));
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
