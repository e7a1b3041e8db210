// What the store of responses counts is what they take.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "net/responses/whole_items.hpp"
#include "net/store/response_store.hpp"
#include "test/support/counted_memory.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

const key_owner owner{"1", "team", "ann"};

/// As a writer leaves it that appends piece by piece.
std::string written(std::size_t bytes) {
  std::string out;
  while (out.size() < bytes) out += "{\"a\":1}";
  return out;
}

struct measured {
  orcd::test::heap_watch watch;
  response_store store{std::size_t{1} << 30U};
  int made = 0;

  /// A response with this input, whose answer has so many bytes, after an earlier one where there is one.
  void keep(const json::value& input, std::size_t answer, const std::string& after = {}) {
    const std::string id = name(made++);
    kept_items output;
    output.reserve(1);
    output.push_back({"msg_0123456789abcdef0123456789abcdef", written(answer)});
    kept_response response{{}, written(250), written(700)};
    if (!after.empty()) response.turns = store.find(owner, after)->turns;
    store.keep(owner, id, {std::make_shared<const kept_items>(whole_items(input)), std::move(output)},
               std::move(response));
  }
  static std::string name(int number) {
    const std::string digits = std::to_string(number);
    return "resp_" + std::string(32 - digits.size(), '0') + digits;
  }
  void check() const {
    const auto held = static_cast<double>(watch.held());
    const auto counted = static_cast<double>(store.bytes());
    BOOST_TEST_MESSAGE("counted " << counted << ", held " << held << " bytes");
    BOOST_TEST(std::abs(counted - held) < 0.25 * held, "counted " << counted << ", held " << held);
  }
};

BOOST_FIXTURE_TEST_SUITE(memory_of_kept_responses, measured)

BOOST_AUTO_TEST_CASE(of_short_ones) {
  for (int i = 0; i < 2'000; ++i) keep("hi", 30);
  check();
}

BOOST_AUTO_TEST_CASE(of_long_ones) {
  for (int i = 0; i < 100; ++i) keep(json::string(20'000 + 700 * i, 'x'), 9'000);
  check();
  // Writers leave room behind what they have written; for as long as it is kept there is none.
  std::size_t texts = 0;
  for (int i = 0; i < 100; ++i) {
    const auto found = store.find(owner, name(i));
    texts += text_bytes(found->turns) + found->before.size() + found->after.size();
  }
  BOOST_TEST(static_cast<double>(watch.held()) < 1.05 * static_cast<double>(texts));
}

BOOST_AUTO_TEST_CASE(of_many_items) {
  json::array input;
  for (int i = 0; i < 300; ++i) input.push_back({{"role", "user"}, {"content", "word"}});
  for (int i = 0; i < 30; ++i) keep(input, 100);
  check();
}

BOOST_AUTO_TEST_CASE(of_long_conversations) {
  for (int i = 0; i < 500; ++i) keep("and then?", 60, i == 0 ? "" : name(i - 1));
  check();
}

BOOST_AUTO_TEST_CASE(of_what_was_given_up_is_none) {
  for (int i = 0; i < 50; ++i) keep("hi", 30, i == 0 ? "" : name(i - 1));
  const auto before = watch.held();
  for (int i = 0; i < 49; ++i) store.erase(owner, name(i));
  BOOST_TEST(watch.held() < before);
  check();
  store.erase(owner, name(49));
  BOOST_TEST(store.bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
