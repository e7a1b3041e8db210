// The JSON Schema Test Suite (draft 2020-12): what is invalid under a schema is never taken by its grammar.
// Much that is valid is not generated (grammar.hpp says what), so that this is only counted.
#include <boost/test/unit_test.hpp>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

BOOST_AUTO_TEST_SUITE(json_schema_test_suite)

BOOST_AUTO_TEST_CASE(nothing_invalid_is_taken) {
  const auto table = grammar::make_token_table(piece_tokenizer(), 257);
  std::size_t groups = 0, compiled_groups = 0, taken = 0, valid = 0, invalid = 0;
  const auto suite = read_json("suite.json");
  for (const auto& group : suite.as_array()) {
    ++groups;
    const auto made = grammar::compile_json_schema(group.at("schema"));
    if (!made) {
      BOOST_TEST_MESSAGE(text_of(group.at("name")) << " is refused: " << made.error().message);
      continue;
    }
    ++compiled_groups;
    for (const auto& text : group.at("invalid").as_array()) {
      ++invalid;
      BOOST_TEST(!takes(*made, table, text_of(text)), text_of(group.at("name")) << ": " << text_of(text));
    }
    for (const auto& text : group.at("valid").as_array()) {
      ++valid;
      if (takes(*made, table, text_of(text))) {
        ++taken;
      } else {
        BOOST_TEST_MESSAGE(text_of(group.at("name")) << " does not take " << text_of(text));
      }
    }
  }
  BOOST_TEST_MESSAGE(compiled_groups << " of " << groups << " schemas compile; of their texts " << taken
                                     << " of " << valid << " valid ones are taken, none of " << invalid
                                     << " invalid ones");
  BOOST_TEST(compiled_groups >= 230U);
  BOOST_TEST(taken >= 348U);
}

BOOST_AUTO_TEST_CASE(an_unknown_format_is_listed_and_taken) {
  const auto made = compiled(boost::json::parse(
      R"({"properties":{"a":{"format":"uri"},"b":{"format":"x\r\ny"},"c":{"format":"uri"}}})"));
  const auto& ignored = grammar::ignored_annotations(*made);
  BOOST_TEST(ignored == (std::vector<std::string>{"format=uri", "format=x??y"}),
             boost::test_tools::per_element());
  boost::json::object many;
  for (int i = 0; i < 20; ++i)
    many["p" + std::to_string(i)] = {{"format", std::string(100, 'f') + std::to_string(i)}};
  BOOST_TEST(grammar::ignored_annotations(*compiled({{"properties", many}})).size() == 1U);
}

BOOST_AUTO_TEST_CASE(older_forms_mean_what_they_meant) {
  const auto table = grammar::make_token_table(piece_tokenizer(), 257);
  const auto tuple = compiled(
      boost::json::parse(R"({"items":[{"type":"string"},{"type":"integer"}],"additionalItems":false})"));
  BOOST_TEST(takes(tuple, table, "[\"a\",1]"));
  BOOST_TEST(!takes(tuple, table, "[1,1]"));
  BOOST_TEST(!takes(tuple, table, "[\"a\",1,2]"));
  const auto nullable = compiled(boost::json::parse(R"({"type":"integer","nullable":true})"));
  BOOST_TEST(takes(nullable, table, "null"));
  BOOST_TEST(takes(nullable, table, "7"));
  BOOST_TEST(!takes(nullable, table, "\"\""));
}

BOOST_AUTO_TEST_SUITE_END()
