// What a service manager keeps of a holder: what is sent to it, and what is taken up again.
#include "app/holder/stored_state.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "app/holder/shared_files.hpp"
#include "app/service/passed_listener.hpp"
#include "net/journal/journal.hpp"

namespace orcd::app {
namespace {

using net::file_descriptor;
using items = std::vector<descriptor_store::item>;

/// Keeps what it is told, as a service manager would.
struct fake_manager {
  std::vector<std::string> told{};
  std::size_t room = 1'000;  ///< of its queue
  bool operator()(const std::string& state, int descriptor) {
    if (told.size() >= room) return false;
    told.push_back(state + (descriptor >= 0 ? "+" : ""));
    return true;
  }
  descriptor_store::send_function as_function() {
    return [this](const std::string& state, int descriptor) { return (*this)(state, descriptor); };
  }
};

file_descriptor any_file() {
  return file_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

file_descriptor tcp_socket(bool listens) {
  file_descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listens) BOOST_TEST_REQUIRE(::listen(out.get(), 1) == 0);
  return out;
}

std::vector<stored_descriptor> passed(const char* name, file_descriptor descriptor) {
  std::vector<stored_descriptor> out;
  out.push_back({name, std::move(descriptor)});
  return out;
}

BOOST_AUTO_TEST_SUITE(stored)

BOOST_AUTO_TEST_CASE(only_what_has_changed_is_told) {
  fake_manager manager;
  descriptor_store store(8, manager.as_function());
  const auto one = tcp_socket(false), two = tcp_socket(false), three = tcp_socket(false);
  const items both{{"a", one.get()}, {"b", two.get()}};
  BOOST_TEST(store.update(both));
  const std::vector<std::string> begin{"FDSTORE=1\nFDNAME=a+", "FDSTORE=1\nFDNAME=b+"};
  BOOST_TEST(manager.told == begin, boost::test_tools::per_element());
  BOOST_TEST(store.update(both));
  BOOST_TEST(manager.told.size() == 2U);
  // Another file of the same name.
  const items changed{{"a", three.get()}, {"b", two.get()}};  // watched, as sockets are
  BOOST_TEST(store.update(changed));
  BOOST_TEST_REQUIRE(manager.told.size() == 4U);
  BOOST_TEST(manager.told[2] == "FDSTOREREMOVE=1\nFDNAME=a");
  BOOST_TEST(manager.told[3] == "FDSTORE=1\nFDNAME=a+");
  BOOST_TEST(store.update({}));
  BOOST_TEST(manager.told.size() == 6U);
  BOOST_TEST(store.size() == 0U);
  const items memory{{"m", three.get(), false}};
  BOOST_TEST(store.update(memory));
  BOOST_TEST(manager.told.back() == "FDSTORE=1\nFDNAME=m\nFDPOLL=0+");
}

BOOST_AUTO_TEST_CASE(what_was_passed_is_kept_already) {
  fake_manager manager;
  descriptor_store store(8, manager.as_function());
  const stored_descriptor old{"a", tcp_socket(false)};
  store.note(old);
  store.note({"foreign", tcp_socket(false)});
  const items wanted{{"a", old.descriptor.get()}};
  BOOST_TEST(store.update(wanted));
  BOOST_TEST_REQUIRE(manager.told.size() == 1U);
  BOOST_TEST(manager.told[0] == "FDSTOREREMOVE=1\nFDNAME=foreign");
}

BOOST_AUTO_TEST_CASE(neither_room_nor_a_queue_is_exceeded) {
  fake_manager manager;
  descriptor_store store(2, manager.as_function());
  const auto one = any_file();
  const items three{{"a", one.get()}, {"b", one.get()}, {"c", one.get()}};
  BOOST_TEST(!store.update(three));
  BOOST_TEST(store.size() == 2U);
  manager.room = manager.told.size();
  BOOST_TEST(!store.update({}));
  BOOST_TEST(store.size() == 2U);
  manager.room = 1'000;
  BOOST_TEST(store.update({}));  // what was not taken is told again
  BOOST_TEST(store.size() == 0U);
  manager.room = 100'000;
  descriptor_store large(10'000, manager.as_function());
  items many;
  for (int i = 0; i < 1'000; ++i) many.push_back({std::to_string(i), one.get()});
  BOOST_TEST(!large.update(many));
  BOOST_TEST(large.size() == descriptor_store::messages_max);
  for (int turn = 0; turn < 4 && !large.update(many); ++turn) continue;
  BOOST_TEST(large.size() == 1'000U);
}

BOOST_AUTO_TEST_CASE(places_have_names) {
  const net::held_place place{17, 12'345'678'901};
  BOOST_TEST(stored_name(place) == "connection-17-12345678901");
  BOOST_TEST((stored_place(stored_name(place)) == place));
  BOOST_TEST((stored_place("connection-0-1") == net::held_place{0, 1}));
  for (const char* const bad :
       {"", "connection", "connection-", "connection-1", "connection-1-", "connection-1-0", "connection--1-1",
        "connection-01-1", "connection-1-01", "connection-1-1 ", "connection-1-1-1", "connection-4096-1",
        "connection-1-18446744073709551616", "connection-99999999999-1", "Connection-1-1"}) {
    BOOST_TEST(!stored_place(bad), bad);
  }
}

BOOST_AUTO_TEST_CASE(what_is_stored_is_what_its_name_says) {
  auto listener = tcp_socket(true);
  const auto at = name_of(listener.get()).value();
  auto all = passed("listener", std::move(listener));
  all.push_back({"journal", make_journal(1).value()});
  all.push_back({"connection-3-9", tcp_socket(false)});
  const auto taken = sort_stored(std::move(all), at.address, at.port);
  BOOST_TEST(taken.listener.get() >= 0);
  BOOST_TEST(taken.journal.get() >= 0);
  BOOST_TEST_REQUIRE(taken.connections.size() == 1U);
  BOOST_TEST((taken.connections[0].first == net::held_place{3, 9}));
  BOOST_TEST(taken.refused.empty());
}

/// A journal of which these bytes are others, in both copies of its head.
file_descriptor changed_journal(const std::vector<std::pair<off_t, char>>& changes) {
  auto made = make_journal(1).value();
  const auto second = static_cast<off_t>(net::journal::bytes_of(1) - net::journal_layout::page_bytes);
  for (const auto& [at, to] : changes) {
    for (const off_t copy : {off_t{0}, second}) {
      BOOST_TEST_REQUIRE(::pwrite(made.get(), &to, 1, copy + at) == 1);
    }
  }
  return made;
}

BOOST_AUTO_TEST_CASE(a_damaged_journal_is_taken_with_its_connections_and_another_builds_is_not) {
  const auto with_connection = [](file_descriptor journal) {
    auto all = passed("journal", std::move(journal));
    all.push_back({"connection-3-9", tcp_socket(false)});
    return sort_stored(std::move(all), "0.0.0.0", 0);
  };
  const auto damaged = with_connection(changed_journal({{3, 'X'}}));
  BOOST_TEST(damaged.journal.get() >= 0);
  BOOST_TEST(damaged.connections.size() == 1U);
  BOOST_TEST(damaged.refused.empty());
  // The format before had nothing behind its first 16 bytes.
  std::vector<std::pair<off_t, char>> older{{7, '2'}};
  for (off_t at = 16; at < 32; ++at) older.emplace_back(at, '\0');
  const auto other = with_connection(changed_journal(older));
  BOOST_TEST(other.is_empty());
  BOOST_TEST(other.refused.size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_is_foreign_is_refused) {
  const auto is_refused = [](const char* name, file_descriptor descriptor, std::uint16_t port = 0) {
    const auto out = sort_stored(passed(name, std::move(descriptor)), "0.0.0.0", port);
    return out.is_empty() && out.refused == std::vector<std::string>{name};
  };
  BOOST_TEST(is_refused("unknown", tcp_socket(true)));
  BOOST_TEST(is_refused("worker-orcd.socket", tcp_socket(true)));
  BOOST_TEST(is_refused("listener", tcp_socket(false)));
  BOOST_TEST(is_refused("listener", any_file()));
  BOOST_TEST(is_refused("listener", tcp_socket(true), 1));  // of another port
  BOOST_TEST(is_refused("journal", any_file()));
  BOOST_TEST(is_refused("journal", tcp_socket(true)));
  BOOST_TEST(is_refused("connection-1-1", any_file()));
  BOOST_TEST(is_refused("connection-1-1", tcp_socket(true)));
  BOOST_TEST(is_refused("connection-1-1", tcp_socket(false)));  // without a journal
  // A second one of a name.
  auto two = passed("journal", make_journal(1).value());
  two.push_back({"journal", make_journal(1).value()});
  BOOST_TEST(sort_stored(std::move(two), "0.0.0.0", 0).refused.size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::app
