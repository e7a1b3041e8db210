// Whose the places for connections are, and what is kept for those with few.
#include "net/http/place_shares.hpp"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>

#include "net/http/connection.hpp"

namespace orcd::net {
namespace {

constexpr std::size_t default_places = 1'024;

/// Takes a place if there is one.
bool take(place_shares& shares, std::deque<place_claim>& all, std::string_view network,
          std::string_view tenant = {}) {
  if (!shares.has_room(shares.find(network, tenant))) return false;
  place_claim& one = all.emplace_back();
  shares.join(one, network, tenant);
  shares.set_place(one, true);
  return true;
}

std::size_t take_all(place_shares& shares, std::deque<place_claim>& all, std::string_view network,
                     std::string_view tenant = {}) {
  std::size_t count = 0;
  while (take(shares, all, network, tenant)) ++count;
  return count;
}

BOOST_AUTO_TEST_SUITE(shares_of_places)

BOOST_AUTO_TEST_CASE(how_many_are_few_and_kept) {
  BOOST_TEST(few_places(default_places) == 16U);
  BOOST_TEST(most_of_a_share(default_places) == 896U);
  // Where there are hardly any, one is few, and none is kept.
  for (std::size_t places = 1; places < kept_of_places; ++places) {
    BOOST_TEST(few_places(places) == 1U);
    BOOST_TEST(most_of_a_share(places) == places);
  }
}

BOOST_AUTO_TEST_CASE(one_address_leaves_an_eighth) {
  for (const std::size_t places : {std::size_t{1}, std::size_t{2}, std::size_t{64}, default_places}) {
    place_shares shares(places);
    std::deque<place_claim> all;
    BOOST_TEST(take_all(shares, all, "10.0.0.1") == most_of_a_share(places));
    BOOST_TEST(shares.is_beyond_few(shares.find("10.0.0.1")));
    BOOST_TEST(!shares.is_beyond_few(shares.find("10.0.0.2")));
    std::size_t others = 0;
    while (take(shares, all, "10.1.0." + std::to_string(others))) ++others;
    BOOST_TEST(others == places - most_of_a_share(places));
    BOOST_TEST(shares.held() == places);
  }
}

BOOST_AUTO_TEST_CASE(several_that_flood_leave_it_together) {
  place_shares shares(default_places);
  std::deque<place_claim> all;
  for (const char* from : {"10.0.0.1", "10.0.0.2", "10.0.0.3"}) {
    for (int i = 0; i < 300; ++i) take(shares, all, from);
  }
  take_all(shares, all, "10.0.0.1", "a");
  // Beyond few they have no more than one of them would have had.
  BOOST_TEST(shares.held() == most_of_a_share(default_places) + 3 * shares.few());
  BOOST_TEST(!take(shares, all, "10.0.0.2"));
  BOOST_TEST(take_all(shares, all, "10.0.0.4") == shares.few());
  shares.leave(all.front());
  BOOST_TEST(take(shares, all, "10.0.0.2"));
  BOOST_TEST(!take(shares, all, "10.0.0.3"));
}

BOOST_AUTO_TEST_CASE(counts_stay_right_through_all_that_a_connection_does) {
  place_shares shares(64);
  std::array<place_claim, 5> all;
  for (auto& one : all) shares.join(one, "10.0.0.1");
  place_share* const network = all[0].whole;
  BOOST_TEST(network->members == 5U);
  BOOST_TEST(shares.held() == 0U);
  for (auto& one : all) shares.set_place(one, true);
  for (auto& one : all) shares.set_place(one, true);
  BOOST_TEST(network->places == 5U);

  // Which tenant it is of is known once a head is here.
  shares.join(all[0], "10.0.0.1", "a");
  shares.join(all[1], "10.0.0.1", "a");
  shares.set_place(all[2], false);
  shares.join(all[2], "10.0.0.1", "a");
  BOOST_TEST(network->places == 2U);
  BOOST_TEST(network->members == 2U);
  const auto found = shares.find("10.0.0.1", "a");
  BOOST_TEST(found.whole->places == 2U);
  BOOST_TEST(found.part->members == 3U);
  BOOST_TEST(shares.find("10.0.0.2", "a").whole == found.whole);
  BOOST_TEST(shares.find("10.0.0.2", "a").part == nullptr);
  BOOST_TEST(shares.held() == 4U);

  // The same again, another tenant on a connection that is kept, and another address of the same one.
  shares.join(all[0], "10.0.0.1", "a");
  shares.join(all[1], "10.0.0.1", "b");
  shares.join(all[2], "10.0.0.2", "a");
  BOOST_TEST(found.whole->places == 1U);
  BOOST_TEST(found.part->places == 1U);
  BOOST_TEST(found.whole->members == 2U);
  for (auto& one : all) shares.leave(one);
  shares.leave(all[0]);
  BOOST_TEST(shares.held() == 0U);
  for (const char* tenant : {"", "a", "b"}) BOOST_TEST(shares.find("10.0.0.1", tenant).whole == nullptr);
  // What was beyond few is not, so that all can be had again.
  std::deque<place_claim> more;
  BOOST_TEST(take_all(shares, more, "10.0.0.1") == most_of_a_share(64));
}

BOOST_AUTO_TEST_CASE(another_share_is_no_other_place) {
  place_shares shares(64);
  std::deque<place_claim> all;
  take_all(shares, all, "10.0.0.1", "a");
  take(shares, all, "10.0.0.2");
  place_claim& one = all.back();
  // That the place is of those that are kept is known now.
  BOOST_TEST(!shares.has_room(shares.find("10.0.0.2", "a"), one));
  BOOST_TEST(shares.is_beyond_few(shares.find("10.0.0.2", "a"), one));
  BOOST_TEST(shares.has_room(shares.find("10.0.0.2", "b"), one));
  // A kept connection of the one that has many changes nothing, whose it becomes.
  BOOST_TEST(shares.has_room(shares.find("10.0.0.1", "a"), all.front()));
  take(shares, all, "10.0.0.3", "b");
  BOOST_TEST(shares.has_room(shares.find("10.0.0.1", "b"), all.front()));
}

BOOST_AUTO_TEST_CASE(another_number_of_places_counts_anew) {
  place_shares shares(default_places);
  std::deque<place_claim> all;
  for (int i = 0; i < 16; ++i) take(shares, all, "10.0.0.1");
  shares.set_places(16);
  BOOST_TEST(!take(shares, all, "10.0.0.1"));
  shares.leave(all[0]);
  shares.leave(all[1]);
  BOOST_TEST(!take(shares, all, "10.0.0.1"));
  BOOST_TEST(take(shares, all, "10.0.0.2"));
  shares.set_places(default_places);
  for (auto& one : all) shares.leave(one);
  all.clear();
  BOOST_TEST(take_all(shares, all, "10.0.0.1") == most_of_a_share(default_places));
}

BOOST_AUTO_TEST_SUITE_END()

/// Connections without a socket: all are of one address, and of the tenants that a test names.
struct connections {
  explicit connections(std::size_t most) : limits{.connections_max = most} {}
  ~connections() {
    for (auto& one : all) set.remove(one);
  }
  connections(const connections&) = delete;
  connections& operator=(const connections&) = delete;

  connection& open() {
    const auto tier = set.tier_for(asio::ip::address());
    connection& one = all.emplace_back(tcp::socket(io), limits, tier);
    set.add(one);
    return one;
  }
  /// A body's head has come, with this tenant's key; null: it was refused.
  connection* upload(const char* tenant) {
    connection& one = open();
    if (one.tier == connection_tier::none || !set.promote(one, tenant)) {
      set.remove(one);
      all.pop_back();
      return nullptr;
    }
    one.enter(connection_phase::body);
    return &one;
  }

  asio::io_context io;
  connection_limits limits;
  connection_set set{limits};
  std::deque<connection> all;
};

BOOST_AUTO_TEST_SUITE(connections_of_shares)

BOOST_AUTO_TEST_CASE(a_key_that_floods_leaves_places_and_then_gives_its_own) {
  connections c(64);
  std::size_t flood = 0;
  while (c.upload("a") != nullptr) ++flood;
  BOOST_TEST(flood == most_of_a_share(64));
  for (const char* tenant : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    BOOST_TEST_REQUIRE(c.upload(tenant) != nullptr);
  }
  const auto places_of_flood = [&] { return places_of(c.all.front().claim.whole); };
  BOOST_TEST(places_of_flood() == flood);
  // All places are taken now, by bodies that come as they should.
  connection* const late = c.upload("late");
  BOOST_TEST_REQUIRE(late != nullptr);
  BOOST_TEST((late->tier == connection_tier::regular));
  BOOST_TEST(places_of_flood() < flood);
  for (const auto& one : c.all) {
    if (one.tier == connection_tier::none) BOOST_TEST(one.claim.whole->name == "key a");
  }
  while (c.upload("a") != nullptr) {
  }
  BOOST_TEST(places_of_flood() == flood - 1);
}

BOOST_AUTO_TEST_CASE(a_reserved_connection_gets_a_place_of_the_largest_share) {
  connections c(8);
  while (c.upload("a") != nullptr) {
  }
  for (int i = 0; i < 8; ++i) c.upload("b");
  connection& one = c.open();
  BOOST_TEST((one.tier == connection_tier::reserved));
  BOOST_TEST(c.set.promote(one, "c"));
  BOOST_TEST((one.tier == connection_tier::regular));
  BOOST_TEST(places_of(one.claim.whole) == 1U);
  // What needs no key is asked by the same tenant.
  BOOST_TEST(c.set.promote(one, ""));
  BOOST_TEST(one.claim.whole->name == "key c");
}

BOOST_AUTO_TEST_CASE(a_refusal_says_what_is_kept) {
  connections c(64);
  while (c.upload("a") != nullptr) {
  }
  const auto said = c.set.refusal_of(c.all.front(), "b").message;
  BOOST_TEST(said == "too many connections: the limit is 64");
  connection& one = c.open();
  BOOST_TEST(!c.set.promote(one, "a"));
  BOOST_TEST(
      c.set.refusal_of(one, "a").message ==
      "too many connections with this key: of 64 places 8 are kept for addresses and keys that have up to 1");
}

BOOST_AUTO_TEST_CASE(who_is_answered_is_closed_for_nobody) {
  connections c(4);
  for (const char* tenant : {"a", "a", "a", "a"}) c.upload(tenant)->enter(connection_phase::request);
  BOOST_TEST(c.upload("b") == nullptr);
  for (std::size_t i = 0; i < 4; ++i) BOOST_TEST((c.all[i].tier == connection_tier::regular));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
