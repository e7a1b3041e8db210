// A copy of a matcher goes on as the matcher does, and neither disturbs the other.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <random>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/matcher.hpp"
#include "engine/sampling/token_rules.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

namespace orcd::test {
namespace {

using words = std::vector<std::uint32_t>;

words mask_of(engine::token_constraint& constraint) {
  const engine::token_mask mask = constraint.mask();
  return {mask.begin(), mask.end()};
}

/// A token that may come; -1 where none may, or only the end.
engine::token_id some_token(const words& mask, engine::token_id end, std::mt19937& random) {
  std::vector<engine::token_id> all;
  for (engine::token_id id = 0; id < static_cast<engine::token_id>(32 * mask.size()); ++id) {
    if (id != end && engine::allows(mask, id)) all.push_back(id);
  }
  return all.empty() ? -1 : all[random() % all.size()];
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matcher_copies)

BOOST_AUTO_TEST_CASE(a_copy_goes_on_alike_and_by_itself) {
  const piece_tokenizer vocabulary({"ab", "abc", "\"", "{\"", "true"});
  const auto table = engine::grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  const auto schema = engine::grammar::compile_json_schema(
      boost::json::parse(R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9},
                             "b": {"type": "array", "items": {"enum": ["abc", true, 17]}}},
                             "required": ["a", "b"]})"));
  std::mt19937 random(3);
  for (int run = 0; run < 10; ++run) {
    const std::shared_ptr<engine::token_constraint> plain = engine::make_token_rules(
        {.min_tokens = 3, .ends = {vocabulary.end()}, .allowed = {}, .banned = {}, .banned_rows = {}},
        vocabulary.vocab_size(), engine::grammar::make_matcher(schema.value(), table));
    for (int step = 0; step < 60; ++step) {
      // Goes its own way first, which the other must not notice.
      const auto stray = plain->copy();
      BOOST_REQUIRE(stray != nullptr);
      for (int i = 0; i < 3; ++i) {
        const auto token = some_token(mask_of(*stray), vocabulary.end(), random);
        if (token < 0 || !stray->accept(token)) break;
      }
      const auto copy = plain->copy();
      const words mask = mask_of(*plain);
      BOOST_REQUIRE((mask_of(*copy) == mask));
      const auto token = some_token(mask, vocabulary.end(), random);
      if (token < 0) break;
      BOOST_REQUIRE((plain->accept(token) && copy->accept(token)));
      BOOST_REQUIRE((copy->complete() == plain->complete() && mask_of(*copy) == mask_of(*plain)));
    }
  }
}

// Every length of a bounded string in every element of a bounded list is a place of its own: a schema of
// people's names knows megabytes of them after a hundred tokens, and its drafts need copies all the same.
BOOST_AUTO_TEST_CASE(a_grammar_that_has_seen_much_can_be_copied_and_both_learn_alike) {
  const piece_tokenizer vocabulary({"ab", "abc", "\"", "\",", " \"", "ddddddd"});
  const auto table = engine::grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  const auto schema = engine::grammar::compile_json_schema(boost::json::parse(
      R"({"type": "array", "minItems": 40, "maxItems": 40, "items": {"type": "string", "maxLength": 90}})"));
  std::mt19937 random(5);
  std::shared_ptr<engine::token_constraint> plain = engine::grammar::make_matcher(schema.value(), table);
  for (int step = 0; step < 1'500; ++step) {
    const auto copy = plain->copy();
    BOOST_REQUIRE(copy != nullptr);
    const auto token = some_token(mask_of(*copy), vocabulary.end(), random);
    if (token < 0) break;
    BOOST_REQUIRE((mask_of(*plain) == mask_of(*copy) && plain->work() == copy->work()));
    BOOST_REQUIRE((copy->accept(token) && plain->accept(token)));
    if (step % 2 == 0) plain = copy;
  }
}

BOOST_AUTO_TEST_CASE(a_text_without_a_choice_is_forced_in_long_tokens) {
  const piece_tokenizer vocabulary({"ab", "abc", "bc", "abcde", "{\"", "\":"});
  const auto table = engine::grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  const auto forced_of = [&](const char* pattern, std::uint32_t most) {
    const auto program = engine::grammar::compile_regex(pattern);
    const auto matcher = engine::grammar::make_matcher(program.value(), table);
    std::vector<engine::token_id> out;
    matcher->force(most, out);
    std::string text;
    for (const engine::token_id token : out) text += vocabulary.text(token) + "|";
    return text;
  };
  BOOST_TEST(forced_of("abcdexyz", 9) == "abcde|x|y|z|");
  BOOST_TEST(forced_of("abcdexyz", 2) == "abcde|x|");
  BOOST_TEST(forced_of("abc(x|y)z", 9) == "abc|");
  BOOST_TEST(forced_of("(a|b)c", 9) == "");
  BOOST_TEST(forced_of("ab(c)?", 9) == "abc|");  // a guess: it may end behind "ab", too
  BOOST_TEST(forced_of("[0-9]+", 9) == "");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
