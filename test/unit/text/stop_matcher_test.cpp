#include "engine/text/stop_matcher.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

using orcd::engine::stop_matcher;

namespace {

struct outcome {
  std::string text;
  bool stopped = false;
  std::string stop{};
};

outcome feed(const std::vector<std::string>& stops, std::string_view text, std::size_t size) {
  stop_matcher m(stops);
  outcome all;
  for (; !text.empty() && !all.stopped; text.remove_prefix(std::min(size, text.size()))) {
    auto out = m.push(text.substr(0, size));
    all.text += out.text;
    all.stopped = out.stopped;
    all.stop = out.stop;
  }
  if (!all.stopped) all.text += m.finish();
  return all;
}

// The definition, directly: the earliest end wins, then the longest stop that ends there.
outcome reference(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& s : stops) {
      if (s.size() <= end && text.compare(end - s.size(), s.size(), s) == 0)
        longest = std::max(longest, s.size());
    }
    if (longest != 0) return {text.substr(0, end - longest), true, text.substr(end - longest, longest)};
  }
  return {text, false};
}

BOOST_AUTO_TEST_SUITE(stop_matcher_suite)

BOOST_AUTO_TEST_CASE(without_stops_text_passes_through) {
  stop_matcher m({});
  const auto out = m.push("anything");
  BOOST_TEST(out.text == "anything");
  BOOST_TEST(!out.stopped);
  BOOST_TEST(m.finish() == "");
}

BOOST_AUTO_TEST_CASE(an_empty_stop_is_ignored) {
  BOOST_TEST(feed({""}, "text", 1).text == "text");
}

BOOST_AUTO_TEST_CASE(holds_back_only_a_possible_beginning) {
  stop_matcher m({"STOP", "TOPS"});
  BOOST_TEST(m.push("xST").text == "x");
  BOOST_TEST(m.push("O!").text == "STO!");
  BOOST_TEST(m.push("STO").text == "");
  const auto out = m.push("P and more");
  BOOST_TEST(out.text == "");
  BOOST_TEST(out.stopped);
  BOOST_TEST(m.push("later").text == "");
  BOOST_TEST(m.push("later").stopped);
  BOOST_TEST(m.finish() == "");
}

BOOST_AUTO_TEST_CASE(the_held_back_text_comes_at_the_end) {
  stop_matcher m({"\n\nUser:"});
  BOOST_TEST(m.push("bye\n\nUse").text == "bye");
  BOOST_TEST(m.finish() == "\n\nUse");
}

BOOST_AUTO_TEST_CASE(a_shorter_stop_inside_a_longer_one_completes_first) {
  BOOST_TEST(feed({"abcd", "bc"}, "xabcd", 1).text == "xa");
  BOOST_TEST(feed({"abc", "c"}, "xabc", 1).text == "x");
}

BOOST_AUTO_TEST_CASE(equals_the_definition_for_every_split) {
  std::mt19937 rng(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> stops(1 + rng() % 4);
    for (auto& s : stops) {
      for (std::size_t n = 1 + rng() % 5; n > 0; --n) s.push_back("ab"[rng() % 2]);
    }
    std::string text;
    for (std::size_t n = rng() % 20; n > 0; --n) text.push_back("abc"[rng() % 3]);
    const outcome want = reference(stops, text);
    for (std::size_t size = 1; size < 8; ++size) {
      const outcome got = feed(stops, text, size);
      BOOST_TEST(got.text == want.text);
      BOOST_TEST(got.stopped == want.stopped);
      BOOST_TEST(got.stop == want.stop);
    }
  }
}

BOOST_AUTO_TEST_CASE(many_long_stops_that_almost_match_stay_cheap) {
  std::vector<std::string> stops;
  for (int i = 0; i < 500; ++i) stops.push_back(std::string(1000, 'a') + std::to_string(i));
  stop_matcher m(stops);
  // 500 stops times a prefix of 1000 at each of a million bytes would take minutes without the automaton.
  const std::string text(1'000'000, 'a');
  BOOST_TEST(m.push(text).text.size() == text.size() - 1000);
  BOOST_TEST(m.push("499").stopped);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
