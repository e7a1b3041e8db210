// Guesses by looking up: what followed the longest match, from the sequence or from the prediction.
#include "engine/schedule/lookup_drafts.hpp"

#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

namespace orcd::test {
namespace {

using engine::token_id;
using tokens = std::vector<token_id>;

/// The guess of a fresh source that is told the tokens at once.
tokens guess_of(const tokens& sequence, std::uint32_t most, const tokens& prediction = {},
                std::uint32_t output_from = 1000) {
  engine::lookup_drafts source(prediction, output_from);
  tokens out{99};
  (void)source.guess(sequence, most, out);
  return out;
}

/// The same from the definition: every place is compared.
tokens plain_guess(const tokens& sequence, std::uint32_t most) {
  std::size_t longest = 1;
  std::size_t found = 0;
  for (std::size_t place = 1; place + 1 < sequence.size(); ++place) {
    std::size_t match = 0;
    while (match < 32 && match <= place && sequence[place - match] == sequence[sequence.size() - 1 - match])
      ++match;
    if (match >= 2 && match >= longest) {
      longest = match;
      found = place;
    }
  }
  tokens out;
  if (longest < 2) return out;
  for (std::size_t next = found + 1; out.size() < most; ++next)
    out.push_back(next < sequence.size() ? sequence[next] : out[next - sequence.size()]);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lookup_drafts)

BOOST_AUTO_TEST_CASE(what_followed_before_is_guessed) {
  BOOST_TEST(guess_of({1, 2, 3, 4, 5, 9, 1, 2, 3}, 2) == (tokens{4, 5}), boost::test_tools::per_element());
  BOOST_TEST(guess_of({1, 2, 3, 4, 5}, 4).empty());  // nothing stands twice
  BOOST_TEST(guess_of({7}, 4).empty());
  BOOST_TEST(guess_of({1, 2, 3, 1, 2}, 0).empty());
  BOOST_TEST(guess_of({3, 8, 3}, 4).empty());  // one token is no match
}

BOOST_AUTO_TEST_CASE(the_longest_match_wins_and_of_equal_ones_the_latest) {
  // 5 6 7 stands before 8, 6 7 alone before 9.
  BOOST_TEST(guess_of({5, 6, 7, 8, 0, 6, 7, 9, 5, 6, 7}, 1) == tokens{8}, boost::test_tools::per_element());
  BOOST_TEST(guess_of({6, 7, 8, 0, 6, 7, 9, 1, 6, 7}, 1) == tokens{9}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_repeated_text_is_repeated_again) {
  BOOST_TEST(guess_of({4, 5, 4, 5}, 5) == (tokens{4, 5, 4, 5, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_output_is_expected_to_begin_as_predicted) {
  const tokens prediction{10, 11, 12, 13, 14, 15};
  BOOST_TEST(guess_of({1, 2}, 3, prediction, 2) == (tokens{10, 11, 12}), boost::test_tools::per_element());
  BOOST_TEST(guess_of({1, 2, 10}, 3, prediction, 2) == (tokens{11, 12, 13}),
             boost::test_tools::per_element());
  BOOST_TEST(guess_of({1, 2, 11}, 3, prediction, 2).empty());
  // From two tokens on it is looked up, wherever they stand; its end is the end of the guess.
  BOOST_TEST(guess_of({1, 2, 10, 11}, 3, prediction, 2) == (tokens{12, 13, 14}),
             boost::test_tools::per_element());
  BOOST_TEST(guess_of({1, 2, 13, 14}, 3, prediction, 2) == tokens{15}, boost::test_tools::per_element());
  BOOST_TEST(guess_of({1, 2, 14, 15}, 3, prediction, 2).empty());
  // The prediction and the prompt are no neighbours.
  BOOST_TEST(guess_of({1, 2, 7, 15, 1}, 3, prediction, 2).empty());
}

BOOST_AUTO_TEST_CASE(a_growing_sequence_gives_what_a_plain_search_gives) {
  std::mt19937 random(5);
  for (std::uint32_t run = 0; run < 20; ++run) {
    engine::lookup_drafts source({}, 10);
    tokens sequence;
    for (std::uint32_t i = 0; i < 60; ++i) {  // so few that every place of a bucket is tried
      sequence.push_back(static_cast<token_id>(random() % (3 + run)));
      tokens seen;
      const auto kind = source.guess(sequence, 6, seen);
      BOOST_TEST(kind < engine::draft_kinds);
      const tokens want = plain_guess(sequence, 6);
      BOOST_TEST(seen.empty() == want.empty());
      if (run >= 5) BOOST_TEST(seen == want, boost::test_tools::per_element());
    }
  }
}

// What is not indexed yet is not guessed from, and the work of a call has a bound.
BOOST_AUTO_TEST_CASE(a_long_prompt_is_indexed_in_parts) {
  tokens sequence(100'000);
  for (std::size_t i = 0; i < sequence.size(); ++i) sequence[i] = static_cast<token_id>(i % 50'000);
  engine::lookup_drafts source({}, 100'000);
  tokens seen;
  int calls = 1;
  for (; calls < 50 && (source.guess(sequence, 4, seen), seen.empty()); ++calls) {
  }
  BOOST_TEST(calls > 5);
  BOOST_TEST(seen == (tokens{0, 1, 2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
