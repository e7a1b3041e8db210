// A mask takes tokens out of the choice and changes nothing else.
#include <boost/test/unit_test.hpp>
#include <limits>
#include <random>
#include <vector>

#include "engine/sampling/sampling.hpp"

using namespace orcd::engine;

namespace {

struct row {
  std::vector<float> logits;
  std::vector<std::uint32_t> mask;
  std::vector<float> without;  ///< the same with what is not allowed at -infinity
};

row random_row(std::mt19937_64& random, std::size_t vocab) {
  std::normal_distribution<float> normal(0.0F, 3.0F);
  row out;
  out.mask.resize((vocab + 31) / 32);
  for (std::size_t i = 0; i < vocab; ++i) {
    out.logits.push_back(normal(random));
    const bool allowed = random() % 7 == 0;
    if (allowed) out.mask[i / 32] |= 1U << i % 32;
    out.without.push_back(allowed ? out.logits.back() : -std::numeric_limits<float>::infinity());
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(masks)

BOOST_AUTO_TEST_CASE(the_choice_is_that_among_what_is_allowed) {
  std::mt19937_64 random(9);
  sampling_workspace a, b;
  for (int i = 0; i < 400; ++i) {
    const row r = random_row(random, 1 + random() % 500);
    sampling_params p;
    p.temperature = i % 3 == 0 ? 0.0F : 0.9F;
    p.top_k = i % 4 == 1 ? 5 : 0;
    p.top_p = i % 5 == 2 ? 0.6F : 1.0F;
    p.min_p = i % 7 == 3 ? 0.1F : 0.0F;
    p.repetition_penalty = i % 2 == 0 ? 1.0F : 1.7F;
    const std::vector<token_id> recent{0, 3, 3, 9}, banned{2, 4};
    const double draw = static_cast<double>(random() >> 11U) * 0x1.0p-53;
    BOOST_TEST(sample(r.logits, p, recent, banned, draw, a, r.mask) ==
               sample(r.without, p, recent, banned, draw, b));
  }
}

BOOST_AUTO_TEST_CASE(a_short_mask_allows_nothing_beyond_it_and_an_empty_one_everything) {
  std::vector<float> logits(100, 0.0F);
  logits[99] = 5.0F;
  sampling_params greedy;
  greedy.temperature = 0.0F;
  sampling_workspace work;
  const std::vector<std::uint32_t> first_word{1U << 7U};
  const std::vector<std::uint32_t> none{0U};
  BOOST_TEST(sample(logits, greedy, {}, {}, 0.0, work) == 99);
  BOOST_TEST(sample(logits, greedy, {}, {}, 0.0, work, first_word) == 7);
  BOOST_TEST(sample(logits, greedy, {}, {}, 0.0, work, none) == -1);
  BOOST_TEST(!allows(first_word, -1));
  BOOST_TEST(!allows(first_word, 32));
}

BOOST_AUTO_TEST_SUITE_END()
