#include "app/holder/weights_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace orcd;
using app::weights_table;
using net::denial;
using net::weights_mode;
using std::chrono::milliseconds;
using answer = weights_table::answer;
using answers = weights_table::answers;

namespace {

net::weights_hash hash_of(std::uint8_t first) {
  net::weights_hash out{};
  out[0] = first;
  return out;
}

net::file_descriptor some_memory() {
  return net::file_descriptor(::memfd_create("weights", MFD_CLOEXEC));
}

answer writes(weights_table::client who) {
  return {who, true, weights_mode::write, {}};
}

answer reads(weights_table::client who) {
  return {who, true, weights_mode::read, {}};
}

answer denied(weights_table::client who, denial why = denial::timeout) {
  return {who, false, {}, why};
}

/// A table and a clock that stands still until it is moved.
struct device {
  answers claim(weights_table::client who, weights_mode mode, std::uint32_t timeout_ms = net::no_timeout,
                std::uint64_t epoch = 0) {
    auto told = table.claim(who, {0, mode, timeout_ms, epoch}, now);
    BOOST_TEST_REQUIRE(told.has_value());
    return std::move(*told);
  }
  answers commit(weights_table::client who, std::uint8_t layout = 1) {
    BOOST_TEST_REQUIRE(table.put(who, {8, "weights"}, some_memory()).has_value());
    auto told = table.commit(who, {hash_of(layout), hash_of(9), "m"});
    BOOST_TEST_REQUIRE(told.has_value());
    return std::move(*told);
  }
  answers after(int ms) {
    now += milliseconds(ms);
    return table.expire(now);
  }

  weights_table table{};
  weights_table::time now{std::chrono::hours(1)};
};

}  // namespace

namespace orcd::app {
std::ostream& operator<<(std::ostream& to, const weights_table::answer& one) {
  return to << one.to << (one.granted ? " granted " : " denied ")
            << static_cast<int>(one.granted ? static_cast<std::uint32_t>(one.mode)
                                            : static_cast<std::uint32_t>(one.why));
}
}  // namespace orcd::app

BOOST_AUTO_TEST_SUITE(weights_tables)

BOOST_AUTO_TEST_CASE(test_two_engines_one_device) {
  device one;
  // The second may be the first to ask.
  BOOST_TEST(one.claim(1, weights_mode::read).empty());
  BOOST_TEST(one.claim(0, weights_mode::write_or_read) == answers{writes(0)},
             boost::test_tools::per_element());
  BOOST_TEST(one.table.state().has_writer);
  const answers both{reads(0), reads(1)};
  BOOST_TEST(one.commit(0) == both, boost::test_tools::per_element());
  const auto granted = one.table.grant(weights_mode::read);
  BOOST_TEST(granted.epoch == 1U);
  BOOST_TEST((granted.layout == hash_of(1) && granted.content == hash_of(9) && granted.metadata == "m"));
  const auto found = one.table.get(1, "weights");
  BOOST_TEST_REQUIRE((found.has_value() && *found != nullptr));
  BOOST_TEST((*found)->bytes == 8U);
  BOOST_TEST((*one.table.get(1, "pool") == nullptr));
}

BOOST_AUTO_TEST_CASE(test_two_engines_two_devices) {
  device first;
  device second;
  // They come to the devices in different orders: engine 1 never writes, so that nobody waits for ever.
  BOOST_TEST(first.claim(0, weights_mode::write_or_read).size() == 1U);
  BOOST_TEST(second.claim(1, weights_mode::read).empty());
  BOOST_TEST(first.claim(1, weights_mode::read).empty());
  BOOST_TEST(second.claim(0, weights_mode::write_or_read).size() == 1U);
  BOOST_TEST(second.commit(0).size() == 2U);
  BOOST_TEST(first.commit(0).size() == 2U);
  BOOST_TEST(first.table.state().readers == 2U);
  BOOST_TEST(second.table.state().readers == 2U);
}

BOOST_AUTO_TEST_CASE(test_crash_mid_commit) {
  device first;
  device second;
  for (auto* const one : {&first, &second}) {
    BOOST_TEST(one->claim(0, weights_mode::write_or_read).size() == 1U);
    BOOST_TEST(one->claim(1, weights_mode::read).empty());
  }
  BOOST_TEST(first.commit(0).size() == 2U);
  BOOST_TEST_REQUIRE(second.table.put(0, {8, "weights"}, some_memory()).has_value());
  // Engine 0 dies with the second device half done; engine 1 goes on waiting there.
  BOOST_TEST(first.table.leave(0).empty());
  BOOST_TEST(second.table.leave(0).empty());
  BOOST_TEST(second.table.state().pieces == 0U);
  BOOST_TEST(second.table.state().waiting == 1U);
  // It comes again as another client: the first device is read, only the second is loaded again.
  BOOST_TEST(first.claim(2, weights_mode::write_or_read) == answers{reads(2)},
             boost::test_tools::per_element());
  BOOST_TEST(second.claim(2, weights_mode::write_or_read) == answers{writes(2)},
             boost::test_tools::per_element());
  const answers both{reads(2), reads(1)};
  BOOST_TEST(second.commit(2) == both, boost::test_tools::per_element());
  BOOST_TEST(first.table.state().epoch == 1U);
  BOOST_TEST(second.table.state().epoch == 2U);
}

BOOST_AUTO_TEST_CASE(a_writer_waits_for_readers_and_goes_before_new_ones) {
  device one;
  one.claim(0, weights_mode::write_or_read);
  one.commit(0);
  BOOST_TEST(one.claim(1, weights_mode::read).size() == 1U);
  BOOST_TEST(one.claim(2, weights_mode::write).empty());
  BOOST_TEST(one.claim(3, weights_mode::read).empty());
  BOOST_TEST(one.claim(4, weights_mode::write_or_read).empty());
  BOOST_TEST(one.table.leave(0).empty());
  BOOST_TEST(one.table.leave(1) == answers{writes(2)}, boost::test_tools::per_element());
  BOOST_TEST(one.table.state().pieces == 0U);  // a writer begins with nothing
  BOOST_TEST(!one.table.state().committed);
  const answers all{reads(2), reads(3), reads(4)};
  BOOST_TEST(one.commit(2, 5) == all, boost::test_tools::per_element());
  BOOST_TEST(one.table.state().epoch == 2U);
}

BOOST_AUTO_TEST_CASE(a_writer_that_gives_up_lets_readers_in) {
  device one;
  one.claim(0, weights_mode::write_or_read);
  one.commit(0);
  BOOST_TEST(one.claim(1, weights_mode::write, 500).empty());
  BOOST_TEST(one.claim(2, weights_mode::read).empty());
  BOOST_TEST(one.after(499).empty());
  const answers both{denied(1), reads(2)};
  BOOST_TEST(one.after(1) == both, boost::test_tools::per_element());
  BOOST_TEST(!one.table.next_deadline().has_value());
  // One that leaves does so, too.
  BOOST_TEST(one.claim(3, weights_mode::write).empty());
  BOOST_TEST(one.claim(4, weights_mode::read).empty());
  BOOST_TEST(one.table.leave(3) == answers{reads(4)}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(writers_come_in_their_order_and_the_next_one_begins_anew) {
  device one;
  one.claim(0, weights_mode::write_or_read);
  BOOST_TEST(one.claim(1, weights_mode::write_or_read).empty());
  BOOST_TEST(one.claim(2, weights_mode::read).empty());
  BOOST_TEST(one.claim(3, weights_mode::write).empty());
  BOOST_TEST_REQUIRE(one.table.put(0, {8, "a"}, some_memory()).has_value());
  BOOST_TEST(one.table.leave(0) == answers{writes(1)}, boost::test_tools::per_element());
  BOOST_TEST((*one.table.get(1, "a") == nullptr));
  BOOST_TEST(one.commit(1).size() == 1U);  // 2 has to wait for 3
  BOOST_TEST(one.table.leave(1) == answers{writes(3)}, boost::test_tools::per_element());
  BOOST_TEST(one.table.state().epoch == 3U);
}

BOOST_AUTO_TEST_CASE(timeouts) {
  device one;
  BOOST_TEST(one.claim(1, weights_mode::read, 0) == answers{denied(1)}, boost::test_tools::per_element());
  BOOST_TEST(one.claim(1, weights_mode::read, 1'000).empty());  // it may ask again
  BOOST_TEST(one.claim(2, weights_mode::read, 400).empty());
  BOOST_TEST(one.claim(3, weights_mode::read).empty());
  BOOST_TEST((one.table.next_deadline() == one.now + milliseconds(400)));
  BOOST_TEST(one.after(400) == answers{denied(2)}, boost::test_tools::per_element());
  BOOST_TEST((one.table.next_deadline() == one.now + milliseconds(600)));
  BOOST_TEST(one.after(600) == answers{denied(1)}, boost::test_tools::per_element());
  BOOST_TEST(one.after(1'000'000'000).empty());
  BOOST_TEST(one.table.state().waiting == 1U);
  BOOST_TEST(one.claim(0, weights_mode::write_or_read, 0).size() == 1U);  // granted is not late
}

BOOST_AUTO_TEST_CASE(who_comes_back_to_nothing_is_told_so) {
  device one;
  const answers gone{denied(1, denial::nothing)};
  BOOST_TEST(one.claim(1, weights_mode::read, 30'000, 4) == gone, boost::test_tools::per_element());
  // While somebody writes, there may be something; when that one dies, there is not.
  one.claim(0, weights_mode::write_or_read);
  BOOST_TEST(one.claim(1, weights_mode::read, 30'000, 4).empty());
  BOOST_TEST(one.claim(2, weights_mode::read, 30'000).empty());
  BOOST_TEST(one.table.leave(0) == gone, boost::test_tools::per_element());
  BOOST_TEST(one.table.state().waiting == 1U);
}

BOOST_AUTO_TEST_CASE(who_breaks_a_rule_is_told_which) {
  device one;
  const auto put = [&](weights_table::client who, const std::string& name) {
    return one.table.put(who, {1, name}, some_memory());
  };
  const auto refused = [](const auto& outcome, const char* word) {
    return !outcome && outcome.error().message.find(word) != std::string::npos;
  };
  BOOST_TEST(refused(put(1, "a"), "does not write"));
  BOOST_TEST(refused(one.table.get(1, "a"), "no grant"));
  one.claim(1, weights_mode::write);
  BOOST_TEST(refused(one.table.commit(1, {hash_of(1), {}, ""}), "nothing"));
  BOOST_TEST(refused(one.table.claim(1, {0, weights_mode::read, 0, 0}, one.now), "has one"));
  for (std::size_t i = 0; i < net::pieces_max; ++i) BOOST_TEST(put(1, "p" + std::to_string(i)).has_value());
  BOOST_TEST(refused(put(1, "one more"), "64"));
  BOOST_TEST(refused(one.table.commit(2, {hash_of(1), {}, ""}), "does not write"));
  BOOST_TEST(one.table.commit(1, {hash_of(1), {}, ""}).has_value());
  BOOST_TEST(refused(put(1, "late"), "does not write"));
  BOOST_TEST(refused(one.table.commit(1, {hash_of(1), {}, ""}), "does not write"));
  BOOST_TEST(one.table.leave(77).empty());
}

BOOST_AUTO_TEST_CASE(a_name_is_there_once_and_memory_is_closed_with_its_writer) {
  device one;
  one.claim(1, weights_mode::write);
  auto memory = some_memory();
  const int number = memory.get();
  BOOST_TEST(one.table.put(1, {1, "a"}, std::move(memory)).has_value());
  BOOST_TEST(!one.table.put(1, {1, "a"}, some_memory()).has_value());
  BOOST_TEST(::fcntl(number, F_GETFD) >= 0);
  BOOST_TEST(one.table.leave(1).empty());
  BOOST_TEST(::fcntl(number, F_GETFD) < 0);
}

/// What clients know from their answers, against what a table may do whatever they ask and whenever they
/// leave.
BOOST_AUTO_TEST_CASE(any_order_of_claims_commits_and_ends_keeps_the_rules) {
  constexpr weights_table::client clients = 6;
  enum class has { nothing, claim, write, read };
  std::mt19937 random(5);
  device one;
  std::vector<has> known(clients, has::nothing);
  std::uint64_t writes_granted = 0;
  bool committed = false;
  const auto learn = [&](const answers& told) {
    for (const auto& each : told) {
      const bool first = each.granted && each.mode == weights_mode::write;
      const bool own_commit = known[each.to] == has::write && each.granted && !first;
      BOOST_TEST_REQUIRE((own_commit || known[each.to] == has::claim));
      known[each.to] = !each.granted ? has::nothing : first ? has::write : has::read;
      writes_granted += first ? 1 : 0;
      if (each.granted) committed = !first;
    }
    const auto count = [&](has what) { return std::count(known.begin(), known.end(), what); };
    BOOST_TEST_REQUIRE(count(has::write) <= 1);
    BOOST_TEST_REQUIRE((count(has::write) == 0 || count(has::read) == 0));
    const auto state = one.table.state();
    BOOST_TEST_REQUIRE(state.has_writer == (count(has::write) == 1));
    BOOST_TEST_REQUIRE(state.readers == static_cast<std::uint32_t>(count(has::read)));
    BOOST_TEST_REQUIRE(state.waiting == static_cast<std::uint32_t>(count(has::claim)));
    BOOST_TEST_REQUIRE(state.epoch == writes_granted);
    BOOST_TEST_REQUIRE(state.committed == committed);
  };
  for (int step = 0; step < 20'000; ++step) {
    const weights_table::client who = random() % clients;
    const auto choice = random() % 4;
    if (choice == 0) {
      if (known[who] == has::write) committed = false;
      known[who] = has::nothing;
      learn(one.table.leave(who));
    } else if (choice == 1) {
      learn(one.after(static_cast<int>(random() % 50)));
    } else if (known[who] == has::nothing) {
      known[who] = has::claim;
      const auto mode = static_cast<weights_mode>(1 + random() % 3);
      learn(one.claim(who, mode, random() % 3 == 0 ? net::no_timeout : random() % 200, random() % 2));
    } else if (known[who] == has::write) {
      learn(one.commit(who));
    }
  }
  BOOST_TEST(writes_granted > 100U);
}

BOOST_AUTO_TEST_SUITE_END()
