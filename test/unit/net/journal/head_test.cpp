// The head of a journal, and what else in it may be spoilt: one stray write costs at most what it hit.
#include "net/journal/head.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/failover/file_descriptor.hpp"
#include "net/journal/journal.hpp"
#include "net/journal/journal_record.hpp"
#include "net/journal/recovery.hpp"
#include "test/support/shared_memory.hpp"

namespace orcd::net {
namespace {

using orcd::test::shared_memory;

constexpr std::size_t head_bytes = 32;
constexpr std::size_t page_size = journal_layout::page_bytes;

struct copies {
  explicit copies(std::span<std::byte> memory)
      : first(memory.first(head_bytes)), second(memory.last(page_size).first(head_bytes)) {}
  [[nodiscard]] bool are_same() const { return std::equal(first.begin(), first.end(), second.begin()); }

  std::span<std::byte> first, second;
};

void flip(std::byte& one, unsigned by = 0xFF) {
  one ^= static_cast<std::byte>(by);
}

head_state state_of(shared_memory& memory) {
  return look_at_head(memory.bytes());
}

/// Opens as an engine does that takes over; what is wrong, or nothing.
std::string open_error(std::span<std::byte> memory) {
  const auto opened = journal::over(memory);
  return opened ? std::string() : opened.error().message;
}

bool says(const std::string& message, std::string_view what) {
  return message.find(what) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(heads_of_journals)

BOOST_AUTO_TEST_CASE(each_byte_that_is_spoilt_in_one_copy_is_written_again_from_the_other) {
  shared_memory memory(1);
  const copies heads(memory.bytes());
  BOOST_TEST_REQUIRE((state_of(memory) == head_state::whole));
  const std::vector<std::byte> whole(heads.first.begin(), heads.first.end());
  for (const auto copy : {heads.first, heads.second}) {
    for (std::size_t at = 0; at < head_bytes; ++at) {
      for (const unsigned by : {0x01U, 0x80U, 0xFFU}) {
        flip(copy[at], by);
        BOOST_TEST((state_of(memory) == head_state::one_spoilt));
        BOOST_TEST(open_error(memory.bytes()).empty());
        BOOST_TEST((state_of(memory) == head_state::whole));
        BOOST_TEST(std::equal(whole.begin(), whole.end(), copy.begin()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_byte_in_each_copy_is_damage_and_changes_nothing) {
  shared_memory memory(1);
  const copies heads(memory.bytes());
  for (std::size_t first = 0; first < head_bytes; ++first) {
    for (std::size_t second = 0; second < head_bytes; ++second) {
      for (const unsigned by : {0x01U, 0xFFU}) {
        flip(heads.first[first], by);
        flip(heads.second[second], by);
        BOOST_TEST((state_of(memory) == head_state::damaged));
        flip(heads.first[first], by);
        flip(heads.second[second], by);
      }
    }
  }
  flip(heads.first[3]);
  flip(heads.second[3]);
  const std::vector<std::byte> before(memory.bytes().begin(), memory.bytes().end());
  BOOST_TEST(says(open_error(memory.bytes()), "its head is damaged"));
  BOOST_TEST(std::equal(before.begin(), before.end(), memory.bytes().begin()));
}

BOOST_AUTO_TEST_CASE(a_stray_write_over_either_copy_costs_nothing) {
  for (const std::uint8_t with : {0x00, 0x5A, 0xFF}) {
    shared_memory memory(1);
    std::memset(memory.bytes().data(), with, journal_layout::marks_at);
    BOOST_TEST(open_error(memory.bytes()).empty());
    BOOST_TEST((state_of(memory) == head_state::whole));
    std::memset(memory.bytes().last(page_size).data(), with, page_size);
    BOOST_TEST(open_error(memory.bytes()).empty());
    BOOST_TEST(copies(memory.bytes()).are_same());
  }
}

BOOST_AUTO_TEST_CASE(an_engine_that_dies_while_it_writes_a_copy_leaves_the_other_one) {
  for (std::size_t written = 0; written <= head_bytes; ++written) {
    for (const bool is_first : {true, false}) {
      shared_memory memory(1);
      const copies heads(memory.bytes());
      const auto torn = is_first ? heads.first : heads.second;
      std::fill(torn.begin() + static_cast<std::ptrdiff_t>(written), torn.end(), std::byte{0x77});
      BOOST_TEST(open_error(memory.bytes()).empty());
      BOOST_TEST(heads.are_same());
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_of_another_size_than_its_head_says_is_damaged) {
  shared_memory memory(2);
  const auto bytes = memory.bytes();
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, head_bytes, page_size, page_size + 1, 2 * page_size,
        journal_layout::links_at, bytes.size() / 2, bytes.size() - page_size, bytes.size() - 1}) {
    BOOST_TEST((look_at_head(bytes.first(size)) == head_state::damaged), size);
    BOOST_TEST(says(open_error(bytes.first(size)), "its head is damaged"), size);
  }
  const std::vector<std::byte> zeros(journal::bytes_of(1));
  BOOST_TEST((look_at_head(zeros) == head_state::damaged));
}

BOOST_AUTO_TEST_CASE(a_file_is_looked_at_like_memory) {
  shared_memory memory(1);
  const file_descriptor file(::memfd_create("journal", MFD_CLOEXEC));
  const auto write = [&] {
    const auto bytes = memory.bytes();
    BOOST_TEST_REQUIRE(::pwrite(file.get(), bytes.data(), bytes.size(), 0) ==
                       static_cast<ssize_t>(bytes.size()));
  };
  const auto is = [&](head_state what) {
    const auto looked = look_at_head(file.get());
    return looked && *looked == what;
  };
  BOOST_TEST(is(head_state::damaged));  // of no size
  write();
  BOOST_TEST(is(head_state::whole));
  const copies heads(memory.bytes());
  flip(heads.second[9]);
  write();
  BOOST_TEST(is(head_state::one_spoilt));
  flip(heads.first[0]);
  write();
  BOOST_TEST(is(head_state::damaged));
  BOOST_TEST(!look_at_head(-1).has_value());
}

BOOST_AUTO_TEST_CASE(a_journal_of_another_build_is_not_a_damaged_one) {
  // As the format before had it: magic, places and blocks, and nothing else up to byte 64.
  shared_memory before(1);
  const copies old(before.bytes());
  std::fill(old.first.begin() + 16, old.first.end(), std::byte{0});
  std::fill(old.second.begin(), old.second.end(), std::byte{0});
  old.first[7] = std::byte{'2'};
  BOOST_TEST((state_of(before) == head_state::other_format));
  BOOST_TEST(says(open_error(before.bytes()), "another layout"));
  // A later one has the same head, by which it is known.
  shared_memory after(1);
  const copies newer(after.bytes());
  newer.first[7] = std::byte{'4'};
  constexpr std::size_t sum_at = 24;
  const std::uint64_t sum =
      number_of(std::string_view(reinterpret_cast<const char*>(newer.first.data()), sum_at));
  std::memcpy(newer.first.data() + sum_at, &sum, sizeof sum);
  newer.second[0] = std::byte{0};
  BOOST_TEST((state_of(after) == head_state::other_format));
  // A letter of a magic that is spoilt in both copies makes no other format of it.
  shared_memory memory(1);
  const copies heads(memory.bytes());
  for (const char letter : {'1', '2', '4', '9'}) {
    heads.first[7] = heads.second[7] = static_cast<std::byte>(letter);
    BOOST_TEST((state_of(memory) == head_state::damaged), letter);
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(damage_in_journals)

namespace {

constexpr std::string_view unsent = "nswer";

/// A connection in the middle of its answer, of which it has sent all but that.
struct half_answered {
  half_answered(journal& owner, std::uint32_t slot) : record(owner, slot, slot + 100) {
    record.input_received(moved.received);
    record.begin_request("GET /" + std::to_string(slot) + " HTTP/1.1");
    record.output("an answer", journal_head);
  }
  static constexpr socket_counters moved{15, 4};
  journal_record record;
};

recovery found_in(const journal& from, std::uint32_t slot) {
  return recover(from, slot, slot + 100, half_answered::moved);
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_byte_of_a_record_costs_its_connection_alone) {
  shared_memory memory(2);
  auto dead = memory.open();
  const half_answered zero(dead, 0), one(dead, 1), two(dead, 2);
  BOOST_TEST_REQUIRE((found_in(memory.open(), 1).kind == recovery_kind::resumed));
  const auto records = memory.bytes().subspan(journal_layout::records_at, 3 * sizeof(journal_layout::record));
  const std::vector<std::byte> whole(records.begin(), records.end());
  constexpr std::size_t bytes = sizeof(journal_layout::record);
  for (std::size_t at = 0; at < bytes; ++at) {
    for (const unsigned by : {0x01U, 0x03U, 0x80U, 0xFFU}) {
      std::copy(whole.begin(), whole.end(), records.begin());
      flip(records[bytes + at], by);
      const auto successor = memory.open();
      for (const std::uint32_t other : {0U, 2U}) {
        const auto found = found_in(successor, other);
        BOOST_TEST((found.kind == recovery_kind::resumed), at);
        BOOST_TEST(found.connection.unsent == unsent);
      }
      const auto found = found_in(successor, 1);
      // What is not read any more, as the state before, may be spoilt.
      const bool same = found.kind == recovery_kind::resumed && found.connection.unsent == unsent;
      BOOST_TEST((same || found.kind != recovery_kind::resumed), at);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_an_older_connection_left_in_a_record_is_nobodys) {
  shared_memory memory(1);
  auto dead = memory.open();
  { const half_answered gone(dead, 0); }
  const half_answered lives(dead, 1);
  // The record of the one that is gone says of blocks that the other one has by now that they are its own.
  memory.record(0).serial = 7;
  const auto successor = memory.open();
  BOOST_TEST((recover(successor, 0, 7, half_answered::moved).kind == recovery_kind::lost));
  BOOST_TEST((found_in(successor, 1).kind == recovery_kind::resumed));
}

BOOST_AUTO_TEST_CASE(chains_that_are_all_spoilt_are_read_in_a_bounded_time) {
  constexpr std::uint32_t mebibytes = 64;
  shared_memory memory(mebibytes);
  const auto blocks = memory.open().blocks();
  auto* const links = reinterpret_cast<std::uint32_t*>(memory.bytes().data() + journal_layout::links_at);
  for (std::uint32_t block = 0; block < blocks; ++block) links[block] = (block + 1) % blocks;
  for (std::uint32_t slot = 0; slot < journal_records; ++slot) {
    auto& r = memory.record(slot);
    r.serial = slot + 1;
    r.status = journal_layout::kept;
    auto& s = r.states[0];
    s.log_head = s.out_head = s.events_head = slot % blocks;
    s.request_bytes = s.out_bytes = std::uint64_t{blocks} * journal_layout::block_bytes;
  }
  memory.seal();
  const auto successor = memory.open();
  BOOST_TEST(successor.blocks_free() == blocks);
  BOOST_TEST((recover(successor, 9, 10, half_answered::moved).kind == recovery_kind::lost));
}

BOOST_AUTO_TEST_CASE(an_engine_whose_entry_is_spoilt_is_unknown_and_is_noted_again) {
  const journal_engine self{11, {22, 33, 0}, 44}, other{12, {23, 34, 0}, 45};
  // The first engine of all has the second entry.
  const auto at = journal_layout::engines_at + offsetof(journal_layout::engines, entries) +
                  sizeof(journal_layout::engine_entry);
  constexpr std::size_t digest_at = offsetof(journal_layout::engine_entry, digest);
  for (std::size_t byte = 0; byte < sizeof(journal_layout::engine_entry); ++byte) {
    if (byte / 8 == digest_at / 8) continue;  // it is compared with others, and decides nothing alone
    shared_memory memory(1);
    auto dead = memory.open();
    const auto maker = dead.enter(self);
    const auto second = dead.enter(other);
    flip(memory.bytes()[at + byte]);
    auto successor = memory.open();
    BOOST_TEST(!successor.engine_of(maker).has_value(), byte);
    BOOST_TEST(successor.engine_of(second).has_value(), byte);
    BOOST_TEST(successor.enter(self) == maker, byte);
    const auto again = successor.engine_of(maker);
    BOOST_TEST_REQUIRE(again.has_value());
    BOOST_TEST((again->parts == 11U && again->weights.mapped == 33U && again->fingerprint == 44U));
  }
}

BOOST_AUTO_TEST_CASE(marks_that_are_spoilt_name_no_place) {
  shared_memory memory(1);
  auto* const marks =
      reinterpret_cast<journal_layout::marks*>(memory.bytes().data() + journal_layout::marks_at);
  marks->alone = journal_records + 1;
  marks->in_order = 7;
  auto successor = memory.open();
  BOOST_TEST(!successor.take_alone().has_value());
  BOOST_TEST(!successor.take_in_order());
  marks->alone = journal_records;
  BOOST_TEST((successor.take_alone() == journal_records - 1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
