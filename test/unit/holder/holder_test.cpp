#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <string_view>
#include <vector>

#include "app/holder/heart_watch.hpp"
#include "app/holder/held_table.hpp"
#include "app/holder/holder_options.hpp"
#include "app/holder/journal_damage.hpp"
#include "app/holder/refused_clients.hpp"
#include "app/holder/restart_policy.hpp"
#include "app/holder/shared_files.hpp"
#include "app/holder/socket_place.hpp"
#include "net/failover/frame_socket.hpp"
#include "net/failover/own_process.hpp"
#include "test/support/temporary_directory.hpp"

using namespace orcd;
using app::held_table;
using net::file_descriptor;
using net::held_place;
using std::chrono::milliseconds;

namespace {

file_descriptor some_descriptor() {
  return file_descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(held_tables)

BOOST_AUTO_TEST_CASE(slots_are_used_again_and_serials_are_not) {
  held_table table(3);
  BOOST_TEST((table.add(some_descriptor()) == held_place{0, 1}));
  BOOST_TEST((table.add(some_descriptor()) == held_place{1, 2}));
  BOOST_TEST((table.add(some_descriptor()) == held_place{2, 3}));
  BOOST_TEST(table.is_full());
  BOOST_TEST(!table.add(some_descriptor()).has_value());
  BOOST_TEST(!table.close({1, 3}));
  BOOST_TEST(!table.close({net::held_sockets_max, 1}));
  BOOST_TEST(table.close({1, 2}));
  BOOST_TEST(!table.close({1, 2}));
  BOOST_TEST((table.add(some_descriptor()) == held_place{1, 4}));
  BOOST_TEST(table.next_serial() == 5U);
}

BOOST_AUTO_TEST_CASE(a_closed_connection_is_closed) {
  held_table table(8);
  const auto place = table.add(some_descriptor());
  const int socket = table.all().at(0).socket;
  BOOST_TEST(is_open(socket));
  table.close(*place);
  BOOST_TEST(!is_open(socket));
  BOOST_TEST(table.all().empty());
}

BOOST_AUTO_TEST_CASE(connections_of_another_holder_keep_their_places) {
  held_table table(net::held_sockets_max + 5);
  BOOST_TEST(table.put({7, 90}, some_descriptor()));
  BOOST_TEST(!table.put({7, 91}, some_descriptor()));
  BOOST_TEST(!table.put({net::held_sockets_max, 92}, some_descriptor()));
  BOOST_TEST(!table.put({8, 0}, some_descriptor()));
  table.skip_serials(200);
  table.skip_serials(50);
  BOOST_TEST((table.add(some_descriptor()) == held_place{0, 200}));
  BOOST_TEST(table.size() == 2U);
  table.clear();
  BOOST_TEST(table.size() == 0U);
}

BOOST_AUTO_TEST_CASE(those_that_wait_are_taken_in_turn) {
  held_table table(8);
  for (int i = 0; i < 5; ++i) static_cast<void>(table.add(some_descriptor()));
  BOOST_TEST(!table.take_waiting().has_value());
  for (const held_place place : {held_place{1, 2}, held_place{3, 4}, held_place{4, 5}, held_place{4, 5}}) {
    table.let_wait(place);
  }
  table.let_wait({2, 77});  // of another connection
  BOOST_TEST(table.waiting() == 3U);
  table.close({3, 4});
  BOOST_TEST(table.waiting() == 2U);
  const auto next = table.take_waiting();
  BOOST_TEST_REQUIRE(next.has_value());
  BOOST_TEST((next->place == held_place{1, 2} && is_open(next->socket)));
  BOOST_TEST((table.take_waiting()->place == held_place{4, 5}));
  BOOST_TEST(!table.take_waiting().has_value());
  table.let_wait({1, 2});
  table.end_waiting();
  BOOST_TEST(table.waiting() == 0U);
  BOOST_TEST(table.size() == 4U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(heart_watches)

BOOST_AUTO_TEST_CASE(an_engine_hangs_when_either_thread_stands_still) {
  const app::heart_watch::time start{std::chrono::hours(1)};
  app::heart_watch io(milliseconds(1'000), start);
  app::heart_watch gpu(milliseconds(1'000), start);
  app::heart_watch well(milliseconds(1'000), start);
  app::heart_watch never(milliseconds(0), start);
  bool io_hangs = false;
  bool gpu_hangs = false;
  for (int ms = 0; ms <= 1'500; ms += 250) {
    const auto now = start + milliseconds(ms);
    if (ms == 0) io.beat(now, 1);
    gpu.beat(now, 7);
    well.beat(now, static_cast<std::uint64_t>(ms));
    io_hangs = io.hangs(now);
    gpu_hangs = gpu.hangs(now);
    BOOST_TEST(io_hangs == (ms > 1'000));
    BOOST_TEST(gpu_hangs == (ms > 1'000));
    BOOST_TEST(!well.hangs(now));
    BOOST_TEST(!never.hangs(now));
  }
}

BOOST_AUTO_TEST_CASE(a_watch_that_was_stopped_itself_begins_anew) {
  const app::heart_watch::time start{std::chrono::hours(1)};
  app::heart_watch watch(milliseconds(1'000), start);
  watch.beat(start, 1);
  BOOST_TEST(!watch.hangs(start));
  BOOST_TEST(!watch.hangs(start + milliseconds(60'000)));
  BOOST_TEST(!watch.hangs(start + milliseconds(60'900)));
  BOOST_TEST(watch.hangs(start + milliseconds(61'100)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(holder_parts)

BOOST_AUTO_TEST_CASE(waits_between_starts_grow_to_ten_seconds) {
  app::restart_policy policy;
  for (const int wait : {100, 200, 400, 800, 1'600, 3'200, 6'400, 10'000, 10'000}) {
    BOOST_TEST(policy.after(milliseconds(50)).count() == wait);
  }
  BOOST_TEST(policy.after(milliseconds(60'000)).count() == 100);
  BOOST_TEST(policy.after(milliseconds(50)).count() == 200);
}

BOOST_AUTO_TEST_CASE(a_journal_is_sealed_and_told_from_other_files) {
  const auto journal = app::make_journal(16);
  BOOST_TEST_REQUIRE(journal.has_value());
  BOOST_TEST(app::is_journal(journal->get()));
  BOOST_TEST(::ftruncate(journal->get(), 4'096) != 0);
  BOOST_TEST(::ftruncate(journal->get(), std::int64_t{64} << 20U) != 0);
  const auto other = some_descriptor();
  BOOST_TEST(!app::is_journal(other.get()));
  BOOST_TEST(!app::is_listening(other.get()));
  const file_descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_TEST(app::is_connection(socket.get()));
  BOOST_TEST(!app::is_listening(socket.get()));
  BOOST_TEST(::listen(socket.get(), 1) == 0);
  BOOST_TEST(app::is_listening(socket.get()));
  const file_descriptor local(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_TEST(!app::is_connection(local.get()));
}

BOOST_AUTO_TEST_CASE(memory_is_told_from_what_cannot_be_mapped) {
  const file_descriptor memory(::memfd_create("weights", MFD_CLOEXEC));
  BOOST_TEST_REQUIRE(::ftruncate(memory.get(), 4'096) == 0);
  BOOST_TEST(app::is_memory(memory.get(), 4'096));
  BOOST_TEST(!app::is_memory(memory.get(), 4'097));
  const file_descriptor none(::memfd_create("weights", MFD_CLOEXEC));
  BOOST_TEST(!app::is_memory(none.get(), 1));
  // A device's file has no length, as what a GPU's driver gives.
  BOOST_TEST(app::is_memory(some_descriptor().get(), 1));
  const file_descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  BOOST_TEST(!app::is_memory(socket.get(), 1));
  BOOST_TEST(!app::is_memory(-1, 1));
  BOOST_TEST(!app::is_process(memory.get()));
  BOOST_TEST(app::is_process(net::own_pidfd().get()));
}

BOOST_AUTO_TEST_CASE(a_journal_is_replaced_only_where_nobody_can_read_it) {
  using net::head_state;
  int replaced = 0;
  for (const auto head :
       {head_state::whole, head_state::one_spoilt, head_state::damaged, head_state::other_format}) {
    for (unsigned bits = 0; bits < 8; ++bits) {
      const app::journal_damage told{(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0, head};
      if (app::fate_of_journal(told) == app::journal_fate::stays) continue;
      ++replaced;
      BOOST_TEST((told.is_active && !told.is_settled && told.is_complete && head == head_state::damaged));
    }
  }
  BOOST_TEST(replaced == 1);
  BOOST_TEST(app::needs_no_journal({0, 0}));
  BOOST_TEST(!app::needs_no_journal({1, 0}));
  BOOST_TEST(!app::needs_no_journal({0, 1}));
}

BOOST_AUTO_TEST_CASE(what_has_only_run_out_is_no_final_start_error) {
  for (const int number : {EMFILE, ENFILE, ENOMEM, EAGAIN, ENOBUFS, ENOSPC}) {
    BOOST_TEST((app::start_errc(number) == engine::errc::not_ready));
  }
  for (const int number : {EACCES, ENOENT, EADDRNOTAVAIL, EROFS, ENAMETOOLONG}) {
    BOOST_TEST((app::start_errc(number) == engine::errc::worker_start_failed));
  }
}

BOOST_AUTO_TEST_CASE(refused_clients_are_told_and_their_number_is_bounded) {
  boost::asio::io_context io;
  app::refused_clients refused(io, 7);
  std::vector<file_descriptor> ends;
  for (std::size_t i = 0; i < 2 * app::refused_clients::kept_max; ++i) {
    std::array<int, 2> pair{};
    BOOST_TEST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    ends.emplace_back(pair[0]);
    refused.refuse(file_descriptor(pair[1]));
  }
  BOOST_TEST(refused.count() == 2 * app::refused_clients::kept_max);
  std::array<char, 4'096> text{};
  const auto bytes = ::recv(ends[0].get(), text.data(), text.size(), 0);
  BOOST_TEST_REQUIRE(bytes > 0);
  const std::string_view told(text.data(), static_cast<std::size_t>(bytes));
  BOOST_TEST(told.starts_with("HTTP/1.1 503 "));
  for (const auto* part : {"Retry-After: ", "Connection: close", "the limit is 7"}) {
    BOOST_TEST(told.find(part) != std::string_view::npos, part);
  }
  // The first ones are closed; the last one is kept open for a while.
  BOOST_TEST(::send(ends[0].get(), "x", 1, MSG_NOSIGNAL) < 0);
  BOOST_TEST(::send(ends.back().get(), "x", 1, MSG_NOSIGNAL) == 1);
  io.run();
  BOOST_TEST(::send(ends.back().get(), "x", 1, MSG_NOSIGNAL) < 0);
}

BOOST_AUTO_TEST_CASE(one_holder_a_folder) {
  const test::temporary_directory base;
  const auto dir = base.file("d");
  {
    const auto first = app::socket_place::take(dir, "");
    BOOST_TEST_REQUIRE(first.has_value());
    const auto second = app::socket_place::take(dir, "");
    BOOST_TEST(!second.has_value());
    BOOST_TEST(net::connect_frames(dir + "/connections.sock").has_value());
  }
  BOOST_TEST(!net::connect_frames(dir + "/connections.sock").has_value());
  BOOST_TEST(app::socket_place::take(dir, "").has_value());
  BOOST_TEST(!app::socket_place::take(dir, "no such group").has_value());
}

BOOST_AUTO_TEST_CASE(options_of_engines_follow_two_dashes) {
  const auto opts = app::parse_holder_options({"--failover-dir=/d", "--run", "2", "--", "--model", "--x"});
  BOOST_TEST_REQUIRE(opts.has_value());
  BOOST_TEST(opts->engines == 2U);
  BOOST_TEST(opts->engine_options.size() == 2U);
  BOOST_TEST(opts->socket_path() == "/d/connections.sock");
  const auto help = app::parse_holder_options({"--help"});
  BOOST_TEST_REQUIRE(help.has_value());
  BOOST_TEST(help->text.find("--journal-mib") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
