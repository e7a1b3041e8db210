// What the successor of a dead process can know of a KV cache's pages.
#include "engine/schedule/page_ledger.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>

using namespace orcd::engine;

namespace {

constexpr kv_geometry geometry{.page_positions = 4, .pages = 6};

struct memory {
  explicit memory(const kv_geometry& of = geometry)
      : size(page_ledger::bytes(of)),
        bytes(static_cast<std::byte*>(std::aligned_alloc(64, size)), std::free) {
    std::memset(bytes.get(), 0, size);
  }
  std::uint64_t size;
  std::unique_ptr<std::byte, void (*)(void*)> bytes;

  [[nodiscard]] std::span<std::byte> all() const { return {bytes.get(), size}; }
  [[nodiscard]] page_ledger ledger(const kv_geometry& of = geometry) const {
    auto made = page_ledger::of(all(), of);
    BOOST_REQUIRE(made);
    return *made;
  }
};

std::vector<kv_page> pages_of(const std::vector<noted_page>& noted) {
  std::vector<kv_page> out;
  for (const auto& one : noted) out.push_back(one.page);
  return out;
}

const std::vector<token_id> first{1, 2, 3, 4}, second{5, 6, 7, 8};

}  // namespace

BOOST_AUTO_TEST_SUITE(page_ledgers)

BOOST_AUTO_TEST_CASE(new_memory_has_clean_pages) {
  const memory m;
  const auto ledger = m.ledger();
  for (kv_page page = 0; page < 6; ++page) BOOST_TEST((ledger.use_of(page) == page_ledger::use::clean));
  BOOST_TEST(ledger.noted().empty());
}

BOOST_AUTO_TEST_CASE(the_next_process_reads_what_was_noted) {
  const memory m;
  {
    auto ledger = m.ledger();
    ledger.take(std::vector<kv_page>{0, 3, 5});
    ledger.note(3, std::nullopt, "tenant:a:x", first);
    ledger.note(0, 3, "tenant:a:x", second);
  }
  const auto next = m.ledger();
  const auto noted = next.noted();
  BOOST_REQUIRE(pages_of(noted) == (std::vector<kv_page>{3, 0}));
  BOOST_TEST(noted[0].salt == "tenant:a:x");
  BOOST_TEST(!noted[0].parent.has_value());
  BOOST_TEST((noted[0].tokens == first));
  BOOST_TEST(*noted[1].parent == 3);
  BOOST_TEST((noted[1].tokens == second));
  BOOST_TEST((next.use_of(5) == page_ledger::use::taken));
  BOOST_TEST((next.use_of(1) == page_ledger::use::clean));
}

BOOST_AUTO_TEST_CASE(who_uses_a_page_is_counted_and_when_it_was_used_last_is_known) {
  const memory m;
  auto ledger = m.ledger();
  ledger.note(3, std::nullopt, "", first);
  ledger.begin_use(3);
  ledger.begin_use(3);
  ledger.end_use(3, 41);
  BOOST_TEST(m.ledger().noted().at(0).in_use);
  ledger.end_use(3, 42);
  ledger.end_use(3, 43);  // more than there were: of a spoilt ledger
  BOOST_TEST(!m.ledger().noted().at(0).in_use);
  BOOST_TEST(m.ledger().noted().at(0).last_used == 43U);
  ledger.begin_use(3);
  ledger.forget_users();
  BOOST_TEST(!m.ledger().noted().at(0).in_use);
}

BOOST_AUTO_TEST_CASE(what_is_struck_out_is_gone_and_what_hangs_on_it_too) {
  const memory m;
  auto ledger = m.ledger();
  ledger.note(3, std::nullopt, "", first);
  ledger.note(0, 3, "", second);
  ledger.take(std::vector<kv_page>{3});
  BOOST_TEST(ledger.noted().empty());
  ledger.clean(std::vector<kv_page>{3});
  BOOST_TEST((ledger.use_of(3) == page_ledger::use::clean));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_noted_stays_taken) {
  const memory m;
  auto ledger = m.ledger();
  ledger.take(std::vector<kv_page>{1, 2});
  ledger.note(1, std::nullopt, std::string(page_ledger::salt_bytes_max + 1, 's'), first);
  ledger.note(2, std::nullopt, "", std::span(first).first(3));
  for (const kv_page page : {1, 2}) BOOST_TEST((ledger.use_of(page) == page_ledger::use::taken));
}

BOOST_AUTO_TEST_CASE(a_parent_of_another_tenant_counts_for_nothing) {
  const memory m;
  auto ledger = m.ledger();
  ledger.note(0, std::nullopt, "a", first);
  ledger.note(1, 0, "b", second);
  BOOST_TEST((pages_of(ledger.noted()) == std::vector<kv_page>{0}));
}

BOOST_AUTO_TEST_CASE(a_circle_of_parents_is_left_out) {
  const memory m;
  auto ledger = m.ledger();
  ledger.note(0, 1, "", first);
  ledger.note(1, 0, "", second);
  ledger.note(2, 2, "", second);
  BOOST_TEST(ledger.noted().empty());
}

BOOST_AUTO_TEST_CASE(nothing_is_known_of_memory_that_holds_something_else) {
  const auto all_taken = [](const page_ledger& ledger, kv_page pages) {
    for (kv_page page = 0; page < pages; ++page) {
      if (ledger.use_of(page) != page_ledger::use::taken) return false;
    }
    return ledger.noted().empty();
  };
  const memory m;
  m.ledger().note(0, std::nullopt, "", first);
  BOOST_TEST(all_taken(page_ledger::of(m.all(), {.page_positions = 4, .pages = 5}).value(), 5));
  BOOST_TEST(all_taken(m.ledger(), 6));
  m.ledger().note(0, std::nullopt, "", first);
  BOOST_TEST(m.ledger().noted().size() == 1U);
  m.bytes.get()[0] = std::byte{7};
  BOOST_TEST(all_taken(m.ledger(), 6));
  BOOST_TEST(!page_ledger::of(m.all().first(64), geometry).has_value());
}

BOOST_AUTO_TEST_CASE(spoilt_memory_is_read_within_its_bounds) {
  std::mt19937 draw(7);
  for (int round = 0; round < 2'000; ++round) {
    const memory m;
    {
      auto ledger = m.ledger();
      ledger.note(0, std::nullopt, "a", first);
      ledger.note(1, 0, "a", second);
      ledger.note(2, 1, "a", first);
    }
    for (int spoilt = 0; spoilt < 20; ++spoilt) {
      m.bytes.get()[16 + draw() % (m.size - 16)] = static_cast<std::byte>(draw() % 256);
    }
    const auto ledger = m.ledger();
    for (const auto& one : ledger.noted()) {
      BOOST_REQUIRE(one.page >= 0 && one.page < 6 && one.salt.size() <= page_ledger::salt_bytes_max);
      BOOST_REQUIRE(one.tokens.size() == 4U);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
