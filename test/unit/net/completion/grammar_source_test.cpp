#include "net/completion/grammar_source.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/grammar/compile_budget.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/program.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::call_format;

const test::letter_tokenizer letters;

grammar_source source_of(const std::string& schema) {
  grammar_source out;
  out.constraints.kind = constraint_kind::json;
  out.constraints.schema = json::parse(schema);
  out.tokens = engine::grammar::make_token_table(letters, letters.vocab_size());
  return out;
}

grammar_source call_of(const std::string& parameters) {
  grammar_source out = source_of("null");
  out.constraints.kind = constraint_kind::calls;
  out.frame.format.calls = call_format::hermes;
  const std::string tool = R"({"type":"function","function":{"name":"f","parameters":)" + parameters + "}}";
  const std::string other = R"({"type":"function","function":{"name":"g"}})";
  out.constraints.tools = json::parse("[" + tool + "," + other + "]").as_array();
  return out;
}

BOOST_AUTO_TEST_SUITE(grammars_of_requests)

BOOST_AUTO_TEST_CASE(a_schema_that_cannot_be_compiled_is_named_with_its_path) {
  const auto answer = compile_grammar(source_of(R"({"type":"object","properties":{"a":{"not":{}}}})"));
  BOOST_TEST_REQUIRE(!answer.has_value());
  BOOST_TEST(answer.error().param == "response_format");
  BOOST_TEST(answer.error().message.starts_with("#/properties/a/not"));
  const auto call = compile_grammar(call_of(R"({"type":"object","properties":{"a":{"not":{}}}})"));
  BOOST_TEST_REQUIRE(!call.has_value());
  BOOST_TEST(call.error().param == "tools");
  BOOST_TEST(call.error().message.find("\"f\": #/properties/a/not") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(annotations_are_listed_in_a_header_that_nothing_can_break) {
  const auto header_of = [](const grammar_source& source) {
    const auto made = compile_grammar(source);
    BOOST_TEST_REQUIRE(made.has_value());
    return ignored_header(**made);
  };
  const std::string formats =
      R"({"type":"object","properties":{"a":{"format":"uri"},"b":{"format":"x\r\ny: z, \u00e9"}}})";
  BOOST_TEST(header_of(source_of(formats)) == "format=uri, format=x??y??z????");
  BOOST_TEST(header_of(call_of(formats)) == "format=uri, format=x??y??z????");
  BOOST_TEST(header_of(source_of(R"({"type":"string","format":"date"})")).empty());
  json::object many;
  for (int i = 0; i < 100; ++i)
    many["p" + std::to_string(i)] = {{"format", std::to_string(i) + std::string(500, 'f')}};
  BOOST_TEST(header_of(source_of(json::serialize(json::object{{"properties", many}}))).size() <= 400U);
}

BOOST_AUTO_TEST_CASE(strict_is_passed_on) {
  auto source = source_of(R"({"type":"object","properties":{"a":{"type":"string"}},"required":[]})");
  BOOST_TEST(compile_grammar(source).has_value());
  source.constraints.strict = true;
  BOOST_TEST(!compile_grammar(source).has_value());
}

BOOST_AUTO_TEST_CASE(without_a_demand_strict_functions_alone_are_held_to_their_schemas) {
  const auto source_with = [](const std::string& more) {
    grammar_source out = call_of("null");
    out.constraints.kind = constraint_kind::open;
    out.constraints.tools =
        json::parse(R"([{"type":"function","function":{"name":"f","parameters":{"not":{}})" + more +
                    R"(}},{"type":"function","function":{"name":"g"}}])")
            .as_array();
    return out;
  };
  BOOST_TEST(compile_grammar(source_with("")).has_value());
  const auto strict = compile_grammar(source_with(R"(,"strict":true)"));
  BOOST_TEST_REQUIRE(!strict.has_value());
  BOOST_TEST(strict.error().param == "tools");
  BOOST_TEST(strict.error().message.starts_with("tool \"f\": #"));
  BOOST_TEST(key_of(source_with("")) != key_of(call_of(R"({"not":{}})")));
}

BOOST_AUTO_TEST_CASE(a_named_function_is_the_only_one) {
  auto source = call_of(R"({"not":{}})");
  BOOST_TEST(!compile_grammar(source).has_value());
  source.constraints.function = "g";
  BOOST_TEST(compile_grammar(source).has_value());
}

BOOST_AUTO_TEST_CASE(a_grammar_knows_what_memory_it_takes) {
  BOOST_TEST(compile_grammar(source_of("{}")).value()->bytes > 1'000U);
}

BOOST_AUTO_TEST_CASE(a_format_without_calls_cannot_be_made_to_call) {
  auto source = call_of("null");
  source.frame.format.calls = call_format::none;
  BOOST_TEST(compile_grammar(source).error().param == "tool_choice");
}

// A request's compilation has one budget, whatever frame is around its schemas.
BOOST_AUTO_TEST_CASE(what_schemas_cost_is_bounded_in_answers_and_in_calls) {
  json::array lists;
  for (int i = 0; i < 128; ++i) {
    json::array own;
    for (int k = 0; k < 400; ++k) own.emplace_back(400 * i + k);
    lists.push_back(json::object{{"enum", own}});
  }
  const std::string apart = json::serialize(json::object{{"oneOf", lists}});
  const auto answer = compile_grammar(source_of(apart));
  BOOST_TEST_REQUIRE(answer.has_error());
  BOOST_TEST(answer.error().message.starts_with("#/oneOf: the schema is too complex: "),
             answer.error().message);
  BOOST_TEST(answer.error().param == "response_format");
  const auto call = compile_grammar(call_of(apart));
  BOOST_TEST_REQUIRE(call.has_error());
  BOOST_TEST(call.error().message.starts_with("tool \"f\": #/oneOf: the schema is too complex: "));
  BOOST_TEST(call.error().param == "tools");

  // Each alone is far from the limit, all of them are not.
  grammar_source many = call_of("null");
  many.constraints.kind = constraint_kind::open;
  many.constraints.tools.clear();
  for (int i = 0; i < 128; ++i) {
    const std::string pattern = "^(a|b)*a(a|b){9}" + std::to_string(i) + "$";
    many.constraints.tools.push_back(json::object{
        {"type", "function"},
        {"function", json::object{{"name", "f" + std::to_string(i)},
                                  {"strict", true},
                                  {"parameters", json::object{{"type", "string"}, {"pattern", pattern}}}}}});
  }
  const auto together = compile_grammar(many);
  BOOST_TEST_REQUIRE(together.has_error());
  BOOST_TEST(together.error().message.find("#/pattern: the schema is too complex: ") != std::string::npos);
  many.constraints.tools.resize(8);
  BOOST_TEST(compile_grammar(many).has_value());
}

// As many tools as a request may have, each with what tools have.
BOOST_AUTO_TEST_CASE(many_honest_tools_use_little_of_the_budget) {
  for (const auto rule : {constraint_kind::open, constraint_kind::calls}) {
    for (int format = 1; format < engine::call_formats; ++format) {
      grammar_source source = call_of("null");
      source.constraints.kind = rule;
      source.frame.format.calls = static_cast<call_format>(format);
      source.constraints.tools.clear();
      for (int i = 0; i < 128; ++i) {
        const std::string text = R"({"type": "object", "properties": {
          "path": {"type": "string", "description": "Where it lies."},
          "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
          "since": {"type": "string", "format": "date-time"},
          "mail": {"type": ["string", "null"], "format": "email"},
          "mode": {"enum": ["read", "write", "append", "mode_)" +
                                 std::to_string(i) + R"("]},
          "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
          "where": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
          "ratio": {"type": "number", "minimum": 0, "maximum": 1}},
          "required": ["path", "limit", "since", "mail", "mode", "tags", "where", "ratio"],
          "additionalProperties": false,
          "$defs": {"place": {"type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["city", "zip"], "additionalProperties": false}}})";
        source.constraints.tools.push_back(
            json::object{{"type", "function"},
                         {"function", json::object{{"name", "tool_number_" + std::to_string(i)},
                                                   {"strict", true},
                                                   {"parameters", json::parse(text)}}}});
      }
      const auto made = compile_grammar(source);
      BOOST_TEST_REQUIRE(made.has_value(), (made ? "" : made.error().message));
      const auto spent = engine::grammar::compile_budget::last();
      BOOST_TEST_MESSAGE(static_cast<int>(rule) << " " << static_cast<int>(format) << ": " << spent.work
                                                << " steps, " << spent.bytes_peak << " bytes");
      BOOST_TEST(spent.work < engine::grammar::compile_limits().work / 2);
      BOOST_TEST(spent.bytes_peak < engine::grammar::compile_limits().bytes / 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(whatever_changes_the_grammar_changes_the_key) {
  std::vector<grammar_source> sources{source_of("null"), source_of("{}"), source_of(R"({"type":"string"})"),
                                      call_of("null"), call_of("{}")};
  sources.push_back(sources[1]);
  sources.back().constraints.strict = true;
  sources.push_back(sources[1]);
  sources.back().frame.format.think = true;
  sources.push_back(sources.back());
  sources.back().frame.in_reasoning = true;
  sources.push_back(sources.back());
  sources.back().frame.format.reasoning = engine::reasoning_style::seed;
  sources.push_back(sources.back());
  sources.back().frame.format.answer = engine::answer_style::response;
  sources.push_back(sources[1]);
  sources.back().constraints.tools = sources[3].constraints.tools;
  sources.push_back(sources[3]);
  sources.back().constraints.parallel = false;
  sources.push_back(sources[3]);
  sources.back().constraints.function = "g";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) BOOST_TEST(key_of(sources[i]) != key_of(sources[j]), i << " " << j);
  }
  BOOST_TEST(key_of(source_of("{}")) == key_of(sources[1]));
}

BOOST_AUTO_TEST_CASE(a_key_is_a_digest_of_all_that_is_asked_for) {
  BOOST_TEST(key_of(source_of("{}")).size() == 64U);
  // What would look alike if values were written one after the other.
  BOOST_TEST(key_of(source_of(R"(["a",["b"]])")) != key_of(source_of(R"(["a","b",[]])")));
  BOOST_TEST(key_of(source_of(R"({"const":"1"})")) != key_of(source_of(R"({"const":1})")));
  BOOST_TEST(key_of(source_of(R"({"const":1.0})")) != key_of(source_of(R"({"const":1})")));
  BOOST_TEST(key_of(source_of(R"({"const":-1})")) != key_of(source_of(R"({"const":18446744073709551615})")));
  // Properties are generated in their source.
  BOOST_TEST(key_of(source_of(R"({"a":1,"b":2})")) != key_of(source_of(R"({"b":2,"a":1})")));
  // Longer than what is hashed at once, and different in the last byte.
  const std::string text(10'000, 'x');
  BOOST_TEST(key_of(source_of("{\"const\":\"" + text + "y\"}")) !=
             key_of(source_of("{\"const\":\"" + text + "z\"}")));
  BOOST_TEST(key_of(source_of("{\"const\":\"" + text + "y\"}")) ==
             key_of(source_of("{\"const\":\"" + text + "y\"}")));
}

BOOST_AUTO_TEST_CASE(a_refusal_is_remembered_as_it_was) {
  grammar_cache cache;
  const auto bad = source_of(R"({"type":"object","properties":{"a":{"not":{}}}})");
  const auto refused = compile_grammar(bad);
  cache.keep(key_of(bad), refused);
  const auto again = cache.find(key_of(bad));
  BOOST_TEST_REQUIRE(again.has_value());
  BOOST_TEST_REQUIRE(again->has_error());
  BOOST_TEST((again->error().code == engine::errc::invalid_request));
  BOOST_TEST(again->error().message == refused.error().message);
  BOOST_TEST(again->error().param == "response_format");
  BOOST_TEST(!cache.find(key_of(source_of("{}"))).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
