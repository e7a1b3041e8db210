// Numbers between decimal bounds: each of many texts is taken if and only if its value lies between them.
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;
namespace json = boost::json;

const auto& table() {
  static const auto made = grammar::make_token_table(piece_tokenizer(), 257);
  return made;
}

bool lies_between(double value, const json::object& schema) {
  const auto holds = [&](const char* name, auto compare) {
    const json::value* bound = schema.if_contains(name);
    return bound == nullptr || compare(value, bound->to_number<double>());
  };
  return holds("minimum", std::greater_equal<>()) && holds("exclusiveMinimum", std::greater<>()) &&
         holds("maximum", std::less_equal<>()) && holds("exclusiveMaximum", std::less<>());
}

const char* const values[] = {"-100.25", "-10",  "-9.99", "-1.25", "-1",   "-0.5", "-0.05", "-0.001", "0",
                              "0.001",   "0.05", "0.1",   "0.5",   "0.99", "1",    "1.001", "1.01",   "1.25",
                              "9",       "9.99", "10",    "10.5",  "99.9", "100",  "100.25"};

}  // namespace

BOOST_AUTO_TEST_SUITE(number_bounds)

BOOST_AUTO_TEST_CASE(what_is_taken_lies_between_and_what_lies_between_is_taken) {
  std::size_t compared = 0;
  for (const char* low : values) {
    for (const char* high : values) {
      for (unsigned exclusive = 0; exclusive < 4; ++exclusive) {
        json::object schema{{"type", "number"}};
        schema[(exclusive & 1U) != 0 ? "exclusiveMinimum" : "minimum"] = json::parse(low);
        schema[(exclusive & 2U) != 0 ? "exclusiveMaximum" : "maximum"] = json::parse(high);
        const auto made = grammar::compile_json_schema(schema);
        for (const char* text : values) {
          const bool expected = lies_between(std::atof(text), schema);
          const bool taken = made.has_value() && takes(*made, table(), text);
          BOOST_TEST(taken == expected, json::serialize(schema) << " " << text);
          ++compared;
        }
      }
    }
  }
  BOOST_TEST(compared == 25U * 25U * 25U * 4U);
}

// A reader that keeps doubles must find what is generated between the bounds, too.
BOOST_AUTO_TEST_CASE(nothing_rounds_to_an_exclusive_bound) {
  const auto below = compiled({{"type", "number"}, {"exclusiveMaximum", 5}, {"exclusiveMinimum", 0.25}});
  BOOST_TEST(takes(below, table(), "4.99999999999999"));
  BOOST_TEST(!takes(below, table(), "4.9999999999999999"));
  BOOST_TEST(takes(below, table(), "0.25000000000001"));
  BOOST_TEST(!takes(below, table(), "0.2500000000000000001"));
  const auto above = compiled({{"type", "number"}, {"exclusiveMinimum", 5}});
  BOOST_TEST(!takes(above, table(), "5.0000000000000001"));
  BOOST_TEST(takes(above, table(), "5.00000000000001"));
}

// A double has fewer digits than an integer here.
BOOST_AUTO_TEST_CASE(whole_bounds_are_exact) {
  const auto made = compiled({{"type", "number"}, {"minimum", std::int64_t{123'456'789'012'345'679}}});
  BOOST_TEST(takes(made, table(), "123456789012345679"));
  BOOST_TEST(!takes(made, table(), "123456789012345678"));
}

BOOST_AUTO_TEST_SUITE_END()
