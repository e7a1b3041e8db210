// The journal against a model of one connection: whenever its engine dies, the successor finds what the
// client sent and has not been answered, and what it is to be sent, to the byte.
#include "net/journal/journal.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "net/journal/journal_record.hpp"
#include "net/journal/recovery.hpp"
#include "test/support/shared_memory.hpp"

namespace orcd::net {
namespace {

using orcd::test::shared_memory;

std::string text_of(std::mt19937& random, std::size_t bytes) {
  std::string out(bytes, ' ');
  for (char& c : out) c = static_cast<char>('a' + random() % 26);
  return out;
}

/// One connection of an engine, and what the kernel knows of it.
struct connection_model {
  journal_record record;
  socket_counters kernel{};
  std::string request;  ///< received since it began
  std::string written;  ///< the write in hand
  std::uint64_t written_before = 0;
  std::vector<journal_event> told, made;

  connection_model(journal& owner, std::uint32_t slot, std::uint64_t serial) : record(owner, slot, serial) {}

  /// Bytes leave the kernel; `noted` false: the engine dies before it knows.
  void receive(std::string_view bytes, bool noted = true) {
    while (!bytes.empty()) {
      const auto space = record.input_space();
      BOOST_REQUIRE(!space.empty());
      const std::size_t n = std::min(bytes.size(), space.size());
      std::memcpy(space.data(), bytes.data(), n);
      kernel.received += n;
      request += bytes.substr(0, n);
      bytes.remove_prefix(n);
      if (!noted) return;
      record.input_received(n);
    }
  }
  void begin(std::string_view left) {
    record.begin_request(left);
    request = left;
    told.clear();
    made.clear();
    written_before += written.size();
    written.clear();
  }
  void event(journal_event one) {
    record.event(one);
    made.push_back(one);
  }
  void write(std::string bytes, std::uint32_t flags = 0) {
    written_before += written.size();
    record.output(bytes, flags);
    written = std::move(bytes);
    told = made;
  }
  void taken(std::size_t bytes) { kernel.sent = written_before + bytes; }
};

void check_same(const connection_model& model, const recovery& found) {
  BOOST_REQUIRE(found.kind == recovery_kind::resumed);
  BOOST_TEST(found.connection.input == model.request);
  BOOST_TEST(found.connection.unsent == model.written.substr(model.kernel.sent - model.written_before));
  BOOST_TEST((found.connection.told == model.told));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(journal_records_of_connections)

BOOST_AUTO_TEST_CASE(a_request_in_the_middle_of_its_stream_is_found_whole) {
  shared_memory memory(16);
  auto engine = memory.open();
  connection_model c(engine, 7, 1001);
  c.begin({});
  c.receive("POST /execute HTTP/1.1\r\n\r\n{}NEXT");
  c.record.set_origin({{11, 22}, 33, 44, 55});
  c.record.end_of_request(4);
  c.write("HTTP/1.1 200 OK\r\n\r\n", journal_head);
  c.taken(19);
  c.event({0, journal_event::kind::started, 0});
  c.event({0, journal_event::kind::token, 42});
  c.write("data: hello\n\n");
  c.taken(5);
  c.event({0, journal_event::kind::token, 43});  // made, and not told

  const auto successor = memory.open();
  const auto found = recover(successor, 7, 1001, c.kernel);
  check_same(c, found);
  BOOST_TEST(found.connection.unsent == " hello\n\n");
  BOOST_TEST(found.connection.request_bytes == c.request.size() - 4);
  BOOST_TEST(found.connection.flags == journal_head);
  BOOST_TEST(found.connection.origin.entropy[1] == 22U);
  BOOST_TEST(found.connection.origin.received_wall_ns == 33);
  BOOST_TEST(found.connection.origin.maker == 55U);
  BOOST_TEST(found.connection.told.size() == 2U);
}

BOOST_AUTO_TEST_CASE(bytes_that_left_the_kernel_are_there_even_if_nobody_counted_them) {
  shared_memory memory(16);
  auto engine = memory.open();
  connection_model c(engine, 0, 1);
  c.begin({});
  c.receive("GET /he");
  c.receive("alth HTTP/1.1\r\n", false);
  check_same(c, recover(memory.open(), 0, 1, c.kernel));
}

BOOST_AUTO_TEST_CASE(a_connection_that_nobody_touched_is_fresh) {
  shared_memory memory(16);
  auto engine = memory.open();
  { const connection_model before(engine, 3, 5); }
  BOOST_TEST((recover(engine, 3, 6, {0, 0}).kind == recovery_kind::fresh));
  BOOST_TEST((recover(engine, 3, 6, {1, 0}).kind == recovery_kind::ended));
  BOOST_TEST((recover(engine, journal_records, 6, {0, 0}).kind == recovery_kind::lost));
}

BOOST_AUTO_TEST_CASE(counters_that_contradict_the_record_end_the_connection) {
  shared_memory memory(16);
  auto engine = memory.open();
  connection_model c(engine, 0, 1);
  c.begin({});
  c.receive("GET / HTTP/1.1\r\n\r\n");
  c.write("answer", journal_answered);
  for (const std::uint64_t sent : {0U, 6U}) {
    BOOST_TEST((recover(engine, 0, 1, {c.kernel.received, sent}).kind == recovery_kind::resumed));
  }
  const auto more = recover(engine, 0, 1, {c.kernel.received, 7});
  BOOST_TEST((more.kind == recovery_kind::lost && more.conflict));
  const auto less = recover(engine, 0, 1, {c.kernel.received + (64U << 20U), 6});
  BOOST_TEST((less.kind == recovery_kind::lost && less.conflict));
}

BOOST_AUTO_TEST_CASE(random_connections_are_found_as_they_were_left_through_many_engines) {
  std::mt19937 random(20261125);
  shared_memory memory(16);
  for (int round = 0; round < 300; ++round) {
    auto engine = memory.open();
    const std::uint32_t before = engine.blocks_free();
    const auto serial = static_cast<std::uint64_t>(round) + 1;
    const auto slot = static_cast<std::uint32_t>(random() % 8);
    connection_model c(engine, slot, serial);
    c.begin({});
    for (std::uint32_t step = random() % 40; step > 0; --step) {
      switch (random() % 5) {
        case 0: c.receive(text_of(random, random() % 40'000)); break;
        case 1:
          c.begin(std::string_view(c.request).substr(c.request.size() -
                                                     random() % (c.request.size() % 30'000 + 1)));
          break;
        case 2:
          for (std::uint32_t n = random() % 3'000; n > 0; --n) {
            c.event({static_cast<std::uint16_t>(random() % 4), journal_event::kind::token,
                     static_cast<std::int32_t>(random() % 200'000)});
          }
          break;
        case 3:
          c.write(text_of(random, random() % 70'000));
          c.taken(c.written.size());
          break;
        default: c.record.end_of_request(0); break;
      }
    }
    if (random() % 2 == 0) {
      c.write(text_of(random, 1 + random() % 70'000));
      c.taken(random() % (c.written.size() + 1));
    }
    if (random() % 2 == 0) c.receive(text_of(random, 1 + random() % 10'000), false);
    check_same(c, recover(memory.open(), slot, serial, c.kernel));
    c.~connection_model();
    new (&c) connection_model(engine, slot, serial + 1'000'000);
    BOOST_TEST(engine.blocks_free() == before);
  }
}

BOOST_AUTO_TEST_CASE(a_successor_goes_on_with_the_record_and_dies_too) {
  shared_memory before(16);
  auto first = before.open();
  connection_model left(first, 1, 9);
  left.begin({});
  left.receive("POST /execute");
  left.write("abc", journal_interim);
  left.taken(1);

  shared_memory memory = before;  // as the engine's end leaves it: nothing is destroyed in it
  auto second = memory.open();
  journal_record record(journal_record::taken_over{}, second, 1, left.kernel.received);
  BOOST_TEST(record.serial() == 9U);
  record.count_resumed(true);
  const auto space = record.input_space();
  std::memcpy(space.data(), " HTTP", 5);
  record.input_received(5);
  record.event({0, journal_event::kind::token, 5});
  record.output("def", journal_head);
  const auto found = recover(memory.open(), 1, 9, {left.kernel.received + 5, 3});
  BOOST_REQUIRE((found.kind == recovery_kind::resumed));
  BOOST_TEST(found.connection.input == "POST /execute HTTP");
  BOOST_TEST(found.connection.unsent == "def");
  BOOST_TEST(found.connection.resumed == 1U);
  BOOST_TEST(found.connection.ran == 1U);
  BOOST_TEST(found.connection.flags == (journal_interim | journal_head));
  BOOST_TEST(found.connection.told.size() == 1U);
}

BOOST_AUTO_TEST_CASE(an_engine_that_leaves_in_order_says_so_once) {
  shared_memory memory(4);
  memory.open().leave(true);
  auto next = memory.open();
  BOOST_TEST(next.take_in_order());
  BOOST_TEST(!next.take_in_order());
  next.leave(false);
  next.leave(true);  // it has left already, and another engine may be there
  BOOST_TEST(!memory.open().take_in_order());
}

BOOST_AUTO_TEST_CASE(who_waited_and_who_ran_alone_is_known_afterwards) {
  shared_memory memory(4);
  {
    auto engine = memory.open();
    for (const std::uint32_t slot : {0U, 63U, 64U, journal_records - 1}) engine.set_waits(slot, true);
    engine.set_waits(63, false);
    engine.set_alone(5, true);
  }
  auto next = memory.open();
  BOOST_TEST(next.waits(0));
  BOOST_TEST(!next.waits(63));
  BOOST_TEST(next.waits(64));
  BOOST_TEST(next.waits(journal_records - 1));
  BOOST_TEST(!next.waits(1));
  BOOST_TEST((next.take_alone() == 5U));
  BOOST_TEST(!next.take_alone().has_value());
  next.set_alone(0, true);
  next.set_alone(0, false);
  BOOST_TEST(!next.take_alone().has_value());
  // A new request of the same place does something.
  journal_record record(next, 64, 1);
  record.begin_request({});
  BOOST_TEST(!next.waits(64));
}

BOOST_AUTO_TEST_CASE(events_that_were_noted_and_not_told_leave_no_trace) {
  constexpr std::int32_t in_a_block = journal_layout::block_bytes / sizeof(journal_layout::stored_event);
  shared_memory before(16);
  auto first = before.open();
  connection_model left(first, 1, 9);
  left.begin({});
  const auto note = [](auto& record, std::int32_t token) {
    record.event({0, journal_event::kind::token, token});
  };
  for (std::int32_t n = 0; n < in_a_block - 1; ++n) note(left, n);
  left.write("told");
  for (std::int32_t n = 0; n < 2 * in_a_block; ++n) note(left, -1);

  shared_memory memory = before;
  auto second = memory.open();
  journal_record record(journal_record::taken_over{}, second, 1, 0);
  for (std::int32_t n = in_a_block - 1; n < 2 * in_a_block; ++n) note(record, n);
  record.output("more", 0);
  const auto found = recover(memory.open(), 1, 9, {0, 8});
  BOOST_REQUIRE((found.kind == recovery_kind::resumed));
  BOOST_TEST(found.connection.told.size() == static_cast<std::size_t>(2 * in_a_block));
  for (std::int32_t n = 0; n < 2 * in_a_block; ++n)
    BOOST_TEST(found.connection.told[static_cast<std::size_t>(n)].token == n);
}

BOOST_AUTO_TEST_CASE(a_full_journal_gives_a_connection_up_and_no_other) {
  shared_memory memory(4);
  auto engine = memory.open();
  connection_model small(engine, 0, 1);
  small.begin({});
  small.receive("GET / HTTP/1.1\r\n");
  const std::uint32_t before = engine.blocks_free();
  {
    journal_record big(engine, 1, 2);
    big.begin_request({});
    std::size_t received = 0;
    while (!big.input_space().empty()) {
      const auto n = big.input_space().size();
      big.input_received(n);
      received += n;
    }
    BOOST_TEST(received == std::size_t{before} * journal_layout::block_bytes);
    BOOST_TEST(big.abandoned());
    const auto found = recover(engine, 1, 2, {received, 0});
    BOOST_TEST((found.kind == recovery_kind::lost && !found.conflict));
    big.output("works on", journal_answered);
  }
  BOOST_TEST(engine.blocks_free() == before);
  check_same(small, recover(engine, 0, 1, small.kernel));
}

BOOST_AUTO_TEST_CASE(a_journal_spoilt_anywhere_is_read_without_harm) {
  std::mt19937 random(7);
  shared_memory before(4);
  auto engine = before.open();
  connection_model c(engine, 2, 77);
  c.begin({});
  c.receive(text_of(random, 50'000));
  for (int n = 0; n < 5'000; ++n) c.event({0, journal_event::kind::token, n});
  c.write(text_of(random, 50'000));
  const shared_memory whole = before;
  for (int round = 0; round < 400; ++round) {
    shared_memory memory = whole;
    const auto bytes = memory.bytes();
    for (int n = 0; n < 8; ++n) {
      const std::size_t at = random() % 3 == 0 ? 4'096 + random() % (3 * sizeof(journal_layout::record))
                                               : random() % bytes.size();
      bytes[at] = static_cast<std::byte>(random());
    }
    if (round % 2 == 0) memory.seal();
    auto opened = journal::over(bytes);
    if (!opened) continue;
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
      const auto found = recover(*opened, slot, 77, {50'000, random() % 60'000});
      BOOST_TEST(found.connection.input.size() <= 4U << 20U);
      if (found.kind != recovery_kind::resumed) continue;
      journal_record on(journal_record::taken_over{}, *opened, slot, 50'000);
      on.output("more", 0);
      on.begin_request("x");
    }
  }
}

BOOST_AUTO_TEST_CASE(records_that_share_a_block_are_all_given_up) {
  shared_memory before(16);
  auto engine = before.open();
  connection_model a(engine, 0, 1), b(engine, 1, 2);
  for (auto* one : {&a, &b}) {
    one->begin({});
    one->receive("POST / HTTP/1.1");
  }
  shared_memory memory = before;
  const auto now = [&](std::uint32_t slot) -> journal_layout::state& {
    return memory.record(slot).states[journal_layout::index_of(memory.record(slot).current)];
  };
  now(0).log_head = now(1).log_head;
  memory.seal();
  const auto successor = memory.open();
  BOOST_TEST((recover(successor, 0, 1, a.kernel).kind == recovery_kind::lost));
  BOOST_TEST((recover(successor, 1, 2, b.kernel).kind == recovery_kind::lost));
}

BOOST_AUTO_TEST_CASE(a_record_that_was_given_up_is_kept_again_from_the_next_request_on) {
  shared_memory memory(4);
  auto engine = memory.open();
  connection_model c(engine, 0, 1);
  c.begin({});
  std::size_t received = 0;
  while (!c.record.input_space().empty()) {
    received += c.record.input_space().size();
    c.record.input_received(c.record.input_space().size());
  }
  BOOST_REQUIRE(c.record.abandoned());
  c.record.input_received(100);  // elsewhere
  c.record.output("an answer", journal_answered);
  c.record.begin_request({});
  BOOST_TEST(!c.record.abandoned());
  c.record.output("another", 0);
  const auto found = recover(engine, 0, 1, {received + 100, 9 + 3});
  BOOST_REQUIRE((found.kind == recovery_kind::resumed));
  BOOST_TEST(found.connection.unsent == "ther");
  BOOST_TEST(found.connection.input.empty());
}

BOOST_AUTO_TEST_CASE(blocks_come_without_what_was_in_them) {
  shared_memory before(4);
  auto engine = before.open();
  connection_model dead(engine, 0, 1);
  dead.begin({});
  dead.write("the first state's output is the secret");
  dead.taken(dead.written.size());
  dead.write("the second");
  shared_memory memory = before;
  auto successor = memory.open();
  std::vector<std::unique_ptr<journal_record>> records;
  for (std::uint32_t slot = 1; successor.blocks_free() > 0; ++slot) {
    records.push_back(std::make_unique<journal_record>(successor, slot, slot + 10));
    records.back()->begin_request({});
    const auto space = records.back()->input_space();
    BOOST_TEST(std::all_of(space.begin(), space.end(), [](std::byte b) { return b == std::byte{0}; }));
  }
}

BOOST_AUTO_TEST_CASE(a_connection_that_was_closing_is_no_conflict) {
  shared_memory memory(4);
  auto engine = memory.open();
  connection_model c(engine, 0, 1);
  c.begin({});
  c.receive("POST / HTTP/1.1");
  c.write("413", journal_answered);
  c.record.closing();
  const auto found = recover(engine, 0, 1, {5'000'000, 3});
  BOOST_TEST((found.kind == recovery_kind::resumed));
  BOOST_TEST(!in_request(found.connection));
}

BOOST_AUTO_TEST_CASE(an_engine_that_has_left_writes_and_frees_nothing) {
  shared_memory memory(4);
  auto engine = memory.open();
  std::vector<std::byte> then;
  socket_counters kernel;
  {
    connection_model c(engine, 0, 1);
    c.begin({});
    c.receive("POST / HTTP/1.1");
    c.write("half of an answer");
    BOOST_TEST(engine.is_in_use(0));
    engine.leave(false);
    then.assign(memory.bytes().begin(), memory.bytes().end());
    kernel = c.kernel;
    c.record.event({0, journal_event::kind::token, 1});
    c.record.output("more", 0);
    c.record.begin_request({});
    BOOST_TEST(c.record.input_space().empty());
  }
  BOOST_TEST(!engine.is_in_use(0));
  BOOST_TEST(std::equal(then.begin(), then.end(), memory.bytes().begin()));
  BOOST_TEST((recover(memory.open(), 0, 1, kernel).kind == recovery_kind::resumed));
}

BOOST_AUTO_TEST_CASE(memory_of_another_kind_is_no_journal) {
  std::vector<std::byte> small(100), zero(journal::bytes_of(4));
  BOOST_TEST(!journal::over(small).has_value());
  BOOST_TEST(!journal::over(zero).has_value());
}

BOOST_AUTO_TEST_CASE(counters_are_judged) {
  const auto found =
      counters_of({.bytes_acked = 10, .bytes_received = 21, .unsent = 5, .unread = 3, .fin_received = true});
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->received == 17U);
  BOOST_TEST(found->sent == 15U);
  BOOST_TEST(counters_of({.bytes_acked = 10, .bytes_received = 0, .unsent = 5, .fin_sent = true})->sent ==
             14U);
  BOOST_TEST(
      !counters_of({.bytes_acked = 0, .bytes_received = 2, .unsent = 0, .unread = 2, .fin_received = true}));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
