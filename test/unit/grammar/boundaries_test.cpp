// \b and \B of patterns, which depend on what comes before and after them. Words are of ASCII, as ECMAScript
// says.
#include <boost/test/unit_test.hpp>
#include <initializer_list>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

const auto& table() {
  static const auto made = grammar::make_token_table(piece_tokenizer(), 257);
  return made;
}

void expect(const char* pattern, std::initializer_list<const char*> taken,
            std::initializer_list<const char*> refused) {
  const auto program = compiled({{"type", "string"}, {"pattern", pattern}});
  for (const char* text : taken) BOOST_TEST(takes(program, table(), text), pattern << " takes " << text);
  for (const char* text : refused) BOOST_TEST(!takes(program, table(), text), pattern << " refuses " << text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(boundaries)

BOOST_AUTO_TEST_CASE(a_word_anywhere) {
  expect("\\bcat\\b",
         {"\"cat\"", "\"a cat.\"", "\"cat cats\"", "\"\\ncat\\t\"", "\"\u00e9cat\u72d0\"", "\"-cat\\\"\""},
         {"\"cats\"", "\"scat\"", "\"_cat\"", "\"cat1\"", "\"ca t\"", "\"\""});
}

BOOST_AUTO_TEST_CASE(at_the_ends) {
  expect("^a\\b", {"\"a\"", "\"a b\"", "\"a-\""}, {"\"ab\"", "\" a\""});
  expect("\\ba$", {"\"a\"", "\"b a\""}, {"\"ba\"", "\"a \""});
  expect("\\b", {"\"a\"", "\" a \""}, {"\"\"", "\" - \"", "\"\u00e9\""});
  expect("^\\B$", {"\"\""}, {"\"a\"", "\" \""});
  BOOST_TEST(grammar::compile_json_schema({{"type", "string"}, {"pattern", "^\\b$"}}).has_error());
}

BOOST_AUTO_TEST_CASE(where_there_is_none) {
  expect("\\Bat", {"\"cat\"", "\"_at\""}, {"\"at\"", "\"c at\"", "\"\u00e9at\""});
  expect("^a\\Bb$", {"\"ab\""}, {"\"a b\""});
  expect("^[ a]\\B.$", {"\"ab\"", "\"  \""}, {"\"a \"", "\" a\""});
}

BOOST_AUTO_TEST_CASE(in_groups_and_repetitions) {
  expect("^(\\w+\\b ?)+$", {"\"a\"", "\"a bc \"", "\"abc de f\""}, {"\" a\"", "\"a  b\"", "\"\""});
  expect("^(a|\\bb| ){1,4}$", {"\"a\"", "\"b\"", "\"a b\"", "\" b a\""}, {"\"ab\"", "\"a ab\"", "\"\""});
  expect("^(x\\b)*y?$", {"\"\"", "\"x\"", "\"y\""}, {"\"xy\"", "\"xx\""});
}

BOOST_AUTO_TEST_CASE(in_a_class_it_is_backspace) {
  expect("^[\\b]$", {"\"\\b\""}, {"\"b\"", "\"\""});
  expect("^[\\b]\\b1$", {"\"\\b1\""}, {"\"11\""});
  BOOST_TEST(grammar::compile_json_schema({{"type", "string"}, {"pattern", "a\\b+"}}).has_error());
}

BOOST_AUTO_TEST_CASE(in_plain_text) {
  const auto program = grammar::compile_regex("(\\w|-)*\\bend\\b.?");
  BOOST_REQUIRE(program.has_value());
  for (const char* text : {"end", "the-end", "a-end-", "end\u00e9"})
    BOOST_TEST(takes(*program, table(), text), text);
  for (const char* text : {"bend", "ends", "the-endx"}) BOOST_TEST(!takes(*program, table(), text), text);
}

BOOST_AUTO_TEST_SUITE_END()
