#include "net/grammar_cache.hpp"

#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/program.hpp"
#include "test/unit/net/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::call_format;

const test::letter_tokenizer letters;

grammar_order order_of(const std::string& schema) {
  grammar_order out;
  out.demand.rule = output_rule::json;
  out.demand.schema = json::parse(schema);
  out.tokens = engine::grammar::make_token_table(letters, letters.vocab_size());
  return out;
}

grammar_order call_of(const std::string& parameters) {
  grammar_order out = order_of("null");
  out.demand.rule = output_rule::calls;
  out.frame.format.calls = call_format::hermes;
  const std::string tool = R"({"type":"function","function":{"name":"f","parameters":)" + parameters + "}}";
  const std::string other = R"({"type":"function","function":{"name":"g"}})";
  out.demand.tools = json::parse("[" + tool + "," + other + "]").as_array();
  return out;
}

BOOST_AUTO_TEST_SUITE(grammars_of_requests)

BOOST_AUTO_TEST_CASE(a_schema_that_cannot_be_compiled_is_named_with_its_path) {
  const auto answer = compile_demand(order_of(R"({"type":"object","properties":{"a":{"not":{}}}})"));
  BOOST_TEST_REQUIRE(!answer.has_value());
  BOOST_TEST(answer.error().param == "response_format");
  BOOST_TEST(answer.error().message.starts_with("#/properties/a/not"));
  const auto call = compile_demand(call_of(R"({"type":"object","properties":{"a":{"not":{}}}})"));
  BOOST_TEST_REQUIRE(!call.has_value());
  BOOST_TEST(call.error().param == "tools");
  BOOST_TEST(call.error().message.find("\"f\": #/properties/a/not") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(strict_is_passed_on) {
  auto order = order_of(R"({"type":"object","properties":{"a":{"type":"string"}}})");
  BOOST_TEST(compile_demand(order).has_value());
  order.demand.strict = true;
  BOOST_TEST(!compile_demand(order).has_value());
}

BOOST_AUTO_TEST_CASE(without_a_demand_strict_functions_alone_are_held_to_their_schemas) {
  const auto order_with = [](const std::string& more) {
    grammar_order out = call_of("null");
    out.demand.rule = output_rule::open;
    out.demand.tools = json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"not":{}})" +
                                   more + R"(}},{"type":"function","function":{"name":"g"}}])")
                           .as_array();
    return out;
  };
  BOOST_TEST(compile_demand(order_with("")).has_value());
  const auto strict = compile_demand(order_with(R"(,"strict":true)"));
  BOOST_TEST_REQUIRE(!strict.has_value());
  BOOST_TEST(strict.error().param == "tools");
  BOOST_TEST(strict.error().message.starts_with("tool \"f\": #"));
  BOOST_TEST(key_of(order_with("")) != key_of(call_of(R"({"not":{}})")));
}

BOOST_AUTO_TEST_CASE(a_named_function_is_the_only_one) {
  auto order = call_of(R"({"not":{}})");
  BOOST_TEST(!compile_demand(order).has_value());
  order.demand.function = "g";
  BOOST_TEST(compile_demand(order).has_value());
}

BOOST_AUTO_TEST_CASE(a_format_without_calls_cannot_be_made_to_call) {
  auto order = call_of("null");
  order.frame.format.calls = call_format::none;
  BOOST_TEST(compile_demand(order).error().param == "tool_choice");
}

BOOST_AUTO_TEST_CASE(whatever_changes_the_grammar_changes_the_key) {
  std::vector<grammar_order> orders{order_of("null"), order_of("{}"), order_of(R"({"type":"string"})"),
                                    call_of("null"), call_of("{}")};
  orders.push_back(orders[1]);
  orders.back().demand.strict = true;
  orders.push_back(orders[1]);
  orders.back().frame.format.think = true;
  orders.push_back(orders.back());
  orders.back().frame.in_reasoning = true;
  orders.push_back(orders[1]);
  orders.back().demand.tools = orders[3].demand.tools;
  orders.push_back(orders[3]);
  orders.back().demand.parallel = false;
  orders.push_back(orders[3]);
  orders.back().demand.function = "g";
  for (std::size_t i = 0; i < orders.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST(key_of(orders[i]) != key_of(orders[j]), i << " " << j);
  }
  BOOST_TEST(key_of(order_of("{}")) == key_of(orders[1]));
}

BOOST_AUTO_TEST_CASE(the_least_recently_used_goes_first) {
  grammar_cache cache;
  const auto program = compile_demand(order_of("{}")).value();
  for (std::size_t i = 0; i < grammar_cache::entries_max; ++i) cache.keep(std::to_string(i), program);
  BOOST_TEST(cache.find("0") == program);
  cache.keep("new", program);
  BOOST_TEST(cache.size() == grammar_cache::entries_max);
  BOOST_TEST(cache.find("1") == nullptr);
  BOOST_TEST(cache.find("0") == program);
}

BOOST_AUTO_TEST_CASE(large_grammars_and_long_keys_do_not_pile_up) {
  grammar_cache cache;
  cache.keep(std::string(grammar_cache::key_bytes_max + 1, 'k'), compile_demand(order_of("{}")).value());
  BOOST_TEST(cache.size() == 0U);
  const auto large = std::make_shared<engine::grammar::program>();
  large->states.resize(grammar_cache::states_max / 2);
  cache.keep("a", large);
  cache.keep("b", large);
  BOOST_TEST(cache.size() == 2U);
  cache.keep("c", large);
  BOOST_TEST(cache.size() == 2U);
  BOOST_TEST(cache.find("a") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
