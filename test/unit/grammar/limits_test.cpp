// A schema that is costly to follow ends its own job and nothing else: time and memory of a mask are bounded.
#include <boost/test/unit_test.hpp>

#include "cases.hpp"
#include "piece_tokenizer.hpp"
#include "test/support/thread_time.hpp"
#include "worst_to_follow.hpp"

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

namespace {

// Pairs and triples of letters: as many nodes as a small real vocabulary.
piece_tokenizer many_pieces() {
  std::vector<std::string> pieces;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      pieces.push_back({a, b});
      for (char c = 'a'; c <= 'z'; ++c) pieces.push_back({a, b, c});
    }
  }
  return piece_tokenizer(pieces);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(grammar_limits)

BOOST_AUTO_TEST_CASE(a_costly_schema_comes_to_an_end) {
  const auto vocabulary = many_pieces();
  const auto table = grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  const auto program = grammar::compile_json_schema(parallel_patterns(100));
  BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
  grammar::matcher m(*program, table);
  const double start = cpu_ms();
  std::uint32_t letter = 1;
  std::size_t tokens = 0;
  BOOST_REQUIRE(m.accept_text("\""));
  for (; tokens < 3'000 && m.failure().empty(); ++tokens) {
    (void)m.mask();
    letter = letter * 1'103'515'245U + 12'345U;
    const char c = static_cast<char>('a' + (letter >> 16U) % 26);
    if (!m.accept_text({&c, 1})) break;
  }
  const double took = cpu_ms() - start;
  BOOST_TEST_MESSAGE(tokens << " tokens in " << took << " ms: " << m.failure());
  BOOST_TEST(took < 20'000);
  BOOST_TEST(m.failure() != "");
  for (const std::uint32_t word : m.mask()) BOOST_REQUIRE_EQUAL(word, 0U);
}

// What another output has looked at already is known, but must not be cheaper: the same request would end by
// its limits once and not another time.
BOOST_AUTO_TEST_CASE(whether_an_output_is_too_costly_does_not_depend_on_others) {
  std::vector<std::string> pieces;
  for (int i = 0; i < 26 * 26 * 26 * 26; ++i) {
    std::string piece;
    for (int rest = i, n = 0; n < 4; ++n, rest /= 26) piece += static_cast<char>('a' + rest % 26);
    pieces.push_back(std::move(piece));
  }
  const piece_tokenizer vocabulary(pieces);
  const auto table = grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  boost::json::array branches;
  for (int i = 0; i < 100; ++i) {
    branches.push_back(
        boost::json::object{{"type", "string"}, {"pattern", "^[a-z]*" + std::to_string(i) + "$"}});
  }
  const auto program = grammar::compile_json_schema(boost::json::object{{"anyOf", branches}});
  BOOST_REQUIRE(program.has_value());
  for (int i = 0; i < 2; ++i) {
    grammar::matcher m(*program, table);
    BOOST_REQUIRE(m.accept_text("\""));
    (void)m.mask();
    BOOST_TEST(m.failure() != "", "output " << i);
  }
}

BOOST_AUTO_TEST_CASE(long_ordinary_outputs_stay_within_the_limits) {
  const auto vocabulary = many_pieces();
  const auto table = grammar::make_token_table(vocabulary, vocabulary.vocab_size());
  grammar::matcher m(grammar::json_object_grammar(), table);
  BOOST_REQUIRE(m.accept_text("{\"list\": ["));
  for (int i = 0; i < 3'000; ++i) {
    for (const char* text : {"{\"a\": ", "\"text of", " some length\"", ", \"b\": [1, 2.5]}, "}) {
      (void)m.mask();
      BOOST_REQUIRE(m.accept_text(text));
    }
  }
  BOOST_TEST(m.failure() == "");
}

BOOST_AUTO_TEST_SUITE_END()
