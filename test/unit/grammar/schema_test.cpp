// Which texts a schema's grammar takes, and which schemas are refused where.
#include <boost/test/unit_test.hpp>

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

void expect_refused(const boost::json::value& item, bool strict) {
  grammar::schema_options options;
  options.strict = strict;
  const auto made = grammar::compile_json_schema(item.at("schema"), options);
  const std::string shown = boost::json::serialize(item.at("schema"));
  BOOST_TEST(made.has_error(), shown);
  if (!made.has_error()) return;
  const std::string where = text_of(item.at("where")) + ": ";
  BOOST_TEST(made.error().message.substr(0, where.size()) == where,
             shown << " gave " << made.error().message);
  BOOST_TEST((made.error().code == engine::errc::invalid_request));
  BOOST_TEST(made.error().param == "response_format");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schemas)

BOOST_AUTO_TEST_CASE(takes_what_is_valid_and_refuses_what_a_validator_refuses) {
  const auto cases = read_json("cases.json");
  std::size_t refused = 0;
  for (const auto& item : cases.at("schemas").as_array()) {
    BOOST_TEST_CONTEXT(text_of(item.at("name"))) {
      const auto program = compiled(item.at("schema"));
      for (const auto& text : item.at("accepted").as_array()) {
        BOOST_TEST(takes(program, table(), text_of(text)), text_of(text));
      }
      for (const auto& text : item.at("refused").as_array()) {
        BOOST_TEST(!takes(program, table(), text_of(text)), text_of(text));
        ++refused;
      }
    }
  }
  BOOST_TEST(refused > 1000U);
}

BOOST_AUTO_TEST_CASE(names_the_path_of_what_it_refuses) {
  const auto cases = read_json("cases.json");
  for (const auto& item : cases.at("refused").as_array()) expect_refused(item, false);
  for (const auto& item : cases.at("strict").as_array()) {
    BOOST_TEST(grammar::compile_json_schema(item.at("schema")).has_value());
    expect_refused(item, true);
  }
}

BOOST_AUTO_TEST_CASE(strict_makes_all_properties_and_no_other_where_the_schema_does_not_say) {
  const auto schema = boost::json::parse(R"({"type":"object","properties":{"a":{"type":"integer"},
    "b":{"type":"object","properties":{"c":{"type":"boolean"}}}}})");
  grammar::schema_options strict;
  strict.strict = true;
  const auto program = grammar::compile_json_schema(schema, strict);
  BOOST_TEST_REQUIRE(program.has_value());
  BOOST_TEST(takes(*program, table(), R"({"a":1,"b":{"c":true}})"));
  for (const char* text : {R"({})", R"({"a":1})", R"({"a":1,"b":{}})", R"({"a":1,"b":{"c":true},"d":1})"}) {
    BOOST_TEST(!takes(*program, table(), text), text);
  }
  BOOST_TEST(takes(compiled(schema), table(), R"({"a":1})"));
}

BOOST_AUTO_TEST_CASE(takes_json_and_nothing_else) {
  const auto any = compiled(boost::json::object{});
  for (const char* text : {"{",
                           "{\"a\"}",
                           "[1,]",
                           "[1 2]",
                           "01",
                           "1.",
                           ".5",
                           "-",
                           "1e",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud83d\\u0041\"",
                           "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"",
                           "\"\xF4\x90\x80\x80\"",
                           "\"\xFF\"",
                           "\"\n\"",
                           "nul",
                           "True",
                           " 1",
                           "1 ",
                           "[  1]",
                           "[\n\n1]",
                           "{\"a\" :1}",
                           "",
                           "\"a"}) {
    BOOST_TEST(!takes(any, table(), text), text);
  }
  const auto object = grammar::json_object_grammar();
  BOOST_TEST(takes(object, table(), R"({"a":{"b":[{}, [] , "c"]}})") == false);
  BOOST_TEST(takes(object, table(), R"({"a":{"b":[{}, [], "c"]}})"));
  BOOST_TEST(!takes(object, table(), "[]"));
}

BOOST_AUTO_TEST_CASE(does_not_begin_what_cannot_end_within_the_depth) {
  const auto object = grammar::json_object_grammar();
  grammar::matcher m(object, table());
  std::size_t levels = 0;
  while (levels < 10'000 && m.accept_text("{\"a\":")) ++levels;
  BOOST_TEST(levels > 60U);
  BOOST_TEST(levels < 300U);
  // The same beginning, and then to the end.
  grammar::matcher again(object, table());
  for (std::size_t i = 0; i < levels; ++i) BOOST_REQUIRE(again.accept_text("{\"a\":"));
  BOOST_TEST(again.accept_text("1" + std::string(levels, '}')));
  BOOST_TEST(again.complete());
}

BOOST_AUTO_TEST_CASE(refuses_schemas_without_measure) {
  boost::json::value deep = boost::json::object{{"type", "null"}};
  for (int i = 0; i < 200; ++i) deep = boost::json::object{{"type", "array"}, {"items", deep}};
  BOOST_TEST(grammar::compile_json_schema(deep).has_error());

  boost::json::object wide;
  for (int i = 0; i < 10'000; ++i) wide["p" + std::to_string(i)] = boost::json::object{{"type", "integer"}};
  BOOST_TEST(grammar::compile_json_schema(boost::json::object{{"properties", wide}}).has_error());

  boost::json::array many;
  for (int i = 0; i < 50'000; ++i) many.emplace_back("v" + std::to_string(i));
  BOOST_TEST(grammar::compile_json_schema(boost::json::object{{"enum", many}}).has_error());

  // Doubles at every level: in time, down to what the depth allows and below it, and in memory.
  for (const int levels : {28, 60}) {
    boost::json::object defs;
    for (int i = 0; i < levels; ++i) {
      const boost::json::object next{{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
      defs["d" + std::to_string(i)] = boost::json::object{{"allOf", boost::json::array{next, next}}};
    }
    defs["d" + std::to_string(levels)] = boost::json::object{{"type", "null"}};
    const boost::json::object bomb{{"$ref", "#/$defs/d0"}, {"title", "bomb"}, {"$defs", defs}};
    BOOST_TEST(grammar::compile_json_schema(bomb).has_error());
  }
  boost::json::object crossed;
  const auto name = [](char side, int level) { return std::string(1, side) + std::to_string(level); };
  const auto reference = [&](char side, int level) {
    return boost::json::object{{"$ref", "#/$defs/" + name(side, level)}};
  };
  for (int i = 0; i < 28; ++i) {
    for (const char side : {'a', 'b'}) {
      const char other = side == 'a' ? 'b' : 'a';
      crossed[name(side, i)] =
          boost::json::object{{"allOf", boost::json::array{reference(side, i + 1), reference(other, i + 1)}}};
    }
  }
  for (const char side : {'a', 'b'})
    crossed[name(side, 28)] = boost::json::object{
        {"properties", boost::json::object{{"x", boost::json::object{{"const", side == 'a' ? 1 : 2}}}}}};
  BOOST_TEST(grammar::compile_json_schema(
                 boost::json::object{{"$ref", "#/$defs/a0"}, {"title", "crossed"}, {"$defs", crossed}})
                 .has_error());

  // Lists that are compared with each other.
  boost::json::array branches;
  for (int b = 0; b < 100; ++b) {
    boost::json::array own;
    for (int i = 0; i < 1'000; ++i) own.emplace_back(1'000 * b + i);
    branches.push_back(boost::json::object{{"enum", own}});
  }
  BOOST_TEST(grammar::compile_json_schema(boost::json::object{{"oneOf", branches}}).has_error());

  // Counts within counts: each level is compiled as it is and as what it is not.
  boost::json::value counted = boost::json::object{{"const", 1}};
  for (int i = 0; i < 40; ++i)
    counted = boost::json::object{{"type", "array"}, {"contains", counted}, {"maxContains", 2}};
  BOOST_TEST(grammar::compile_json_schema(counted).has_error());

  // Repetitions of nothing.
  BOOST_TEST(grammar::compile_json_schema(
                 boost::json::object{{"type", "string"}, {"pattern", "^((((?:){1024}){1024}){1024}){1024}$"}})
                 .has_error());
}

BOOST_AUTO_TEST_SUITE_END()
