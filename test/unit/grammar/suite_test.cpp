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
  BOOST_TEST(compiled_groups >= 289U);
  BOOST_TEST(taken >= 436U);
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

BOOST_AUTO_TEST_CASE(an_unknown_keyword_is_listed_and_asks_for_nothing) {
  const auto made = compiled(boost::json::parse(R"({"type":"object","strict":true,"x-y":1,"required":["a"],
    "properties":{"a":{"type":"integer","example":5,"format":"int32"},"example":{"const":{"other":1}}},
    "$defs":{"unused":{"anyOf":[{"xml":{}}]}},"propertyOrdering":["a"]})"));
  BOOST_TEST(grammar::ignored_annotations(*made) ==
                 (std::vector<std::string>{"keyword=strict", "keyword=propertyOrdering", "keyword=example",
                                           "keyword=xml"}),
             boost::test_tools::per_element());
  // As many as a body may have: listed are a few, the time is linear.
  boost::json::object many{{"type", "null"}};
  for (int i = 0; i < 100'000; ++i) many["k" + std::to_string(i)] = i;
  BOOST_TEST(grammar::ignored_annotations(*compiled(many)).size() == 8U);
  // What a validator would enforce is refused by its name.
  for (const char* name : {"$dynamicRef", "$recursiveRef", "extends", "disallow", "divisibleBy"}) {
    const auto refused = grammar::compile_json_schema(boost::json::object{{"type", "null"}, {name, 1}});
    BOOST_REQUIRE(refused.has_error());
    BOOST_TEST(refused.error().message == std::string("#/") + name + ": this keyword is not supported");
  }
}

BOOST_AUTO_TEST_CASE(a_step_with_decimal_places_is_one_of_decimals) {
  const auto table = grammar::make_token_table(piece_tokenizer(), 257);
  const auto cents = compiled(boost::json::parse(R"({"type":"number","multipleOf":0.01})"));
  for (const char* text : {"0", "0.07", "19.99", "-3.1", "1234567890123.45"})
    BOOST_TEST(takes(cents, table, text), text);
  for (const char* text : {"0.001", "1.255", "1e2", "12345678901234.5", "1."})
    BOOST_TEST(!takes(cents, table, text), text);
  const auto steps = compiled(
      boost::json::parse(R"({"type":"number","multipleOf":0.0075,"minimum":-0.03,"exclusiveMaximum":0.03})"));
  for (const char* text : {"0", "-0.03", "0.0075", "0.015", "-0.0225"})
    BOOST_TEST(takes(steps, table, text), text);
  for (const char* text : {"0.03", "0.0074", "0.01", "-0.0375", "0.00750"})
    BOOST_TEST(!takes(steps, table, text), text);
  const auto judged =
      compiled(boost::json::parse(R"({"enum":[0.07,0.075,3,10],"multipleOf":0.01,"maximum":9})"));
  for (const char* text : {"0.07", "3"}) BOOST_TEST(takes(judged, table, text), text);
  BOOST_TEST(!takes(judged, table, "0.075"));
}

BOOST_AUTO_TEST_CASE(what_counts_takes_all_that_is_valid_and_nothing_else) {
  const auto table = grammar::make_token_table(piece_tokenizer(), 257);
  const auto parts = read_json("counts.json");
  for (const auto& part : parts.as_array()) {
    const auto& texts = part.at("texts").as_array();
    for (const auto& item : part.at("schemas").as_array()) {
      const auto made = compiled(item.at("schema"));
      const std::string valid = text_of(item.at("valid"));
      for (std::size_t i = 0; i < texts.size(); ++i) {
        BOOST_TEST(takes(made, table, text_of(texts[i])) == (valid[i] == '1'),
                   boost::json::serialize(item.at("schema")) << " and " << text_of(texts[i]));
      }
    }
  }
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
  const auto bounds = compiled(boost::json::parse(
      R"({"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false})"));
  for (const char* text : {"4", "5"}) BOOST_TEST(takes(bounds, table, text), text);
  for (const char* text : {"3", "6"}) BOOST_TEST(!takes(bounds, table, text), text);
  const auto dependencies = compiled(boost::json::parse(
      R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"integer"}},
          "dependencies":{"a":["b"],"b":{"properties":{"c":{"minimum":5}}}}})"));
  for (const char* text : {"{}", R"({"c":1})", R"({"b":null,"c":5})", R"({"a":null,"b":null})"})
    BOOST_TEST(takes(dependencies, table, text), text);
  for (const char* text : {R"({"a":null})", R"({"b":null,"c":1})", R"({"a":null,"b":null,"c":1})"})
    BOOST_TEST(!takes(dependencies, table, text), text);
  const auto denied = compiled(
      boost::json::parse(R"({"type":"integer","minimum":0,"not":{"minimum":3,"exclusiveMinimum":true}})"));
  BOOST_TEST(takes(denied, table, "3"));
  BOOST_TEST(!takes(denied, table, "4"));
}

BOOST_AUTO_TEST_SUITE_END()
