#include "net/store/response_store.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

constexpr std::size_t mib = 1U << 20U;
const key_owner nobody;
const key_owner ann{"1", "team", "ann"};
const key_owner bob{"2", "bob", "bob"};

kept_turn turn_of(std::size_t bytes) {
  auto input = std::make_shared<kept_items>();
  input->push_back({"msg_1", std::string(bytes, 'x')});
  kept_items output{{"msg_2", "{}"}};
  return {std::move(input), std::move(output)};
}

struct filled {
  explicit filled(std::size_t bytes_max, std::size_t responses_max = 100) : store(bytes_max, responses_max) {}
  /// A response of this size, which goes on from another one.
  void keep(const std::string& id, std::size_t bytes, const key_owner& owner = nobody,
            const std::string& after = {}) {
    kept_response made{{}, "[", "]"};
    if (!after.empty()) made.turns = store.find(owner, after)->turns;
    store.keep(owner, id, turn_of(bytes), std::move(made));
  }
  bool has(const std::string& id, const key_owner& owner = nobody) const {
    return store.find(owner, id) != nullptr;
  }
  response_store store;
};

BOOST_AUTO_TEST_SUITE(kept_responses)

BOOST_AUTO_TEST_CASE(what_is_kept_is_found_and_can_be_forgotten) {
  filled f(mib);
  f.keep("a", 10);
  BOOST_TEST_REQUIRE(f.has("a"));
  const auto found = f.store.find(nobody, "a");
  BOOST_TEST(found->body() == "[{}]");
  BOOST_TEST(found->body_bytes() >= found->body().size());
  BOOST_TEST(!f.has("b"));
  BOOST_TEST(f.store.size() == 1U);
  BOOST_TEST(f.store.erase(nobody, "a"));
  BOOST_TEST(!f.store.erase(nobody, "a"));
  BOOST_TEST(!f.has("a"));
  BOOST_TEST(f.store.bytes() == 0U);
  BOOST_TEST(found->body() == "[{}]");  // a request that reads it goes on reading
}

BOOST_AUTO_TEST_CASE(a_key_sees_its_own_alone) {
  filled f(mib);
  f.keep("a", 10, ann);
  BOOST_TEST(f.has("a", ann));
  for (const auto& other : {bob, nobody, key_owner{"3", "team", "ann's other key"}}) {
    BOOST_TEST(!f.has("a", other));
    BOOST_TEST(!f.store.erase(other, "a"));
  }
  BOOST_TEST(f.has("a", ann));
}

BOOST_AUTO_TEST_CASE(the_oldest_goes_first) {
  filled f(mib);
  for (int i = 0; i < 10; ++i) f.keep(std::to_string(i), mib / 4);
  BOOST_TEST(f.store.bytes() <= mib);
  BOOST_TEST(f.store.size() == 3U);
  BOOST_TEST(f.store.evicted() == 7U);
  BOOST_TEST(!f.has("6"));
  BOOST_TEST(f.has("7"));
  BOOST_TEST(f.has("9"));
}

BOOST_AUTO_TEST_CASE(their_number_is_bounded_too) {
  filled f(mib, 3);
  for (int i = 0; i < 5; ++i) f.keep(std::to_string(i), 1);
  BOOST_TEST(f.store.size() == 3U);
  BOOST_TEST(!f.has("1"));
  BOOST_TEST(f.has("2"));
}

BOOST_AUTO_TEST_CASE(one_that_takes_more_than_all_costs_no_other_its_place) {
  filled f(mib);
  f.keep("a", 10);
  f.keep("b", mib);
  BOOST_TEST(!f.has("b"));
  BOOST_TEST(f.has("a"));
  // Nor does a conversation that has grown too long.
  f.keep("c", mib / 2, ann);
  f.keep("d", mib / 2, ann, "c");
  BOOST_TEST(!f.has("d", ann));
  BOOST_TEST(f.has("c", ann));
  BOOST_TEST(f.has("a"));
}

BOOST_AUTO_TEST_CASE(a_tenant_that_holds_much_costs_the_others_nothing) {
  filled f(mib);
  f.keep("small", 1'000, bob);
  for (int i = 0; i < 20; ++i) f.keep(std::to_string(i), mib / 8, ann);
  BOOST_TEST(f.has("small", bob));
  BOOST_TEST(f.has("19", ann));
  BOOST_TEST(!f.has("0", ann));
}

BOOST_AUTO_TEST_CASE(turns_are_shared_and_counted_once) {
  filled f(mib);
  f.keep("a", mib / 4);
  const auto alone = f.store.bytes();
  f.keep("b", 10, nobody, "a");
  f.keep("c", 10, nobody, "b");
  BOOST_TEST(f.store.bytes() < alone + 4'096U);
  BOOST_TEST(f.store.find(nobody, "c")->turns.size() == 3U);
  BOOST_TEST(text_bytes(f.store.find(nobody, "c")->turns) == mib / 4 + 10 + 10 + 3 * 2);
  // What a later response needs stays with it.
  f.store.erase(nobody, "a");
  BOOST_TEST(f.store.bytes() > mib / 4);
  BOOST_TEST(f.store.find(nobody, "c")->turns.size() == 3U);
  f.store.erase(nobody, "b");
  f.store.erase(nobody, "c");
  BOOST_TEST(f.store.bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_response_whose_earlier_ones_went_while_it_was_made) {
  filled f(mib);
  f.keep("a", mib / 4);
  kept_response made{f.store.find(nobody, "a")->turns, "[", "]"};
  f.store.erase(nobody, "a");
  BOOST_TEST(f.store.bytes() == 0U);
  f.store.keep(nobody, "b", turn_of(10), std::move(made));
  BOOST_TEST(f.store.bytes() > mib / 4);
  f.store.erase(nobody, "b");
  BOOST_TEST(f.store.bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_long_conversation_is_given_up_step_by_step) {
  filled f(mib);
  f.keep("0", 20'000, ann);
  for (int i = 1; i < 200; ++i) {
    const auto before = std::to_string(i - 1);
    f.keep(std::to_string(i), 20'000, ann, f.has(before, ann) ? before : "");
    BOOST_TEST(f.store.bytes() <= mib);
  }
  f.keep("other", 10, bob);
  BOOST_TEST(f.has("other", bob));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
