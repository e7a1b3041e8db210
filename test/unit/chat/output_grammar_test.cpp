// Outputs generated at random from the masks of a framed grammar: the parser finds in them the calls, or the
// content, that the grammar promises.
#include "engine/chat/output_grammar.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <map>
#include <random>

#include "engine/grammar/matcher.hpp"
#include "test/support/thread_time.hpp"
#include "test/unit/chat/frame_bench.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::call_format;

BOOST_AUTO_TEST_SUITE(output_grammars)

BOOST_AUTO_TEST_CASE(a_demanded_call_is_always_there) {
  for (const auto& frame : frames()) {
    for (const bool tokens : {true, false}) {
      // Spelled, a mark that ends free text hardly ever comes up at random.
      if (!tokens && (frame.in_reasoning || frame.format.calls == call_format::harmony)) continue;
      const frame_bench bench(frame, tokens);
      const std::vector<engine::callable> tools{{"get_weather", &weather()}, {"stop", nullptr}};
      std::map<std::string, int> seen;
      std::size_t most = 0;
      int finished = 0;
      for (const bool parallel : {false, true}) {
        const auto program = engine::make_call_grammar(frame, {tools, parallel}, *bench.table);
        BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
        for (std::uint64_t seed = 1; seed <= 20; ++seed) {
          const std::string text = bench.generate(*program, seed);
          if (text.empty()) continue;
          ++finished;
          const output out = read(frame, text, tools);
          BOOST_TEST(out.content == "", text);
          BOOST_REQUIRE_MESSAGE(!out.calls.empty(), text);
          if (!parallel) BOOST_TEST(out.calls.size() == 1U);
          if (!frame.may_reason) BOOST_TEST(out.reasoning == "");
          most = std::max(most, out.calls.size());
          for (const auto& [name, arguments] : out.calls) {
            ++seen[name];
            const boost::json::value any = boost::json::object{{"type", "object"}};
            BOOST_TEST(bench.valid(name == "stop" ? any : weather(), arguments), text);
          }
        }
      }
      BOOST_TEST(finished > 10);
      BOOST_TEST(seen.size() == 2U);
      const bool many = frame.format.calls != call_format::llama3 &&
                        frame.format.calls != call_format::harmony && frame.format.calls != call_format::glm;
      BOOST_TEST((most > 1) == many);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_structured_answer_is_the_content) {
  for (const auto& frame : frames()) {
    const frame_bench bench(frame, true);
    const auto program = engine::make_response_grammar(frame, &weather(), {}, *bench.table);
    BOOST_REQUIRE(program.has_value());
    int finished = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::string text = bench.generate(*program, seed);
      if (text.empty()) continue;
      ++finished;
      const output out = read(frame, text);
      BOOST_TEST(out.calls.empty());
      BOOST_TEST(bench.valid(weather(), out.content), text);
    }
    BOOST_TEST(finished > 5);
  }
}

BOOST_AUTO_TEST_CASE(an_answer_or_a_call_is_one_of_both) {
  for (const auto& frame : frames()) {
    const frame_bench bench(frame, true);
    const std::vector<engine::callable> tools{{"get_weather", &weather()}};
    const auto schema = boost::json::parse(R"({"enum": [{"a": 1}, {"b": 2}]})");
    const auto program = engine::make_response_grammar(frame, &schema, {}, *bench.table, {tools, false});
    BOOST_REQUIRE(program.has_value());
    int answers = 0, calls = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      const std::string text = bench.generate(*program, seed);
      if (text.empty()) continue;
      const output out = read(frame, text, tools);
      BOOST_TEST((out.calls.size() == 1U) != bench.valid(schema, out.content), text);
      if (!out.calls.empty()) BOOST_TEST(bench.valid(weather(), out.calls[0].second), text);
      ++(out.calls.empty() ? answers : calls);
    }
    BOOST_TEST((answers > 0 && calls > 0));
  }
}

// What a schema says of arguments that are text, in a demanded call.
BOOST_AUTO_TEST_CASE(arguments_that_are_text_follow_their_schema) {
  const auto schema = boost::json::parse(R"({"type": "object", "properties": {
    "plain": {"type": "string"}, "one": {"enum": ["a", "b</parameter>", "c"]},
    "code": {"type": "string", "pattern": "^[A-Z]{2}$"}, "day": {"type": "string", "format": "date"},
    "both": {"anyOf": [{"type": "string", "maxLength": 2}, {"$ref": "#/$defs/word"}]},
    "maybe": {"type": ["string", "null"]}, "list": {"type": "array", "items": {"$ref": "#/$defs/word"}}},
    "required": ["code", "extra"], "$defs": {"word": {"const": "word"}}})");
  const std::vector<engine::callable> tools{{"f", &schema}};
  const engine::output_frame frame{{call_format::qwen_coder, false}, false, true};
  const frame_bench bench(frame, false);
  const auto program = engine::make_call_grammar(frame, {tools, false}, *bench.table);
  BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
  const auto passes = [&](const std::string& arguments) {
    engine::grammar::matcher m(*program, bench.table);
    return m.accept_text("<tool_call>\n<function=f>\n" + arguments + "</function>\n</tool_call>") &&
           m.may_end();
  };
  const auto argument = [](const std::string& name, const std::string& value) {
    return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
  };
  const std::string code = argument("code", "AB"), extra = argument("extra", "{anything");
  BOOST_TEST(passes(code + extra));
  BOOST_TEST(!passes(code));
  BOOST_TEST(!passes(extra));
  BOOST_TEST(!passes(argument("code", "ABC") + extra));
  BOOST_TEST(passes(argument("plain", "\"any\" <b>\n") + code + extra));
  BOOST_TEST(!passes(argument("plain", "x</parameter>") + code + extra));
  BOOST_TEST(passes(argument("one", "c") + code + extra));
  BOOST_TEST(!passes(argument("one", "b</parameter>") + code + extra));
  BOOST_TEST(passes(code + argument("day", "2024-02-29") + extra));
  BOOST_TEST(!passes(code + argument("day", "2024-02-30") + extra));
  BOOST_TEST(passes(code + argument("both", "word") + extra));
  BOOST_TEST(!passes(code + argument("both", "wor") + extra));
  BOOST_TEST(passes(code + argument("maybe", "\"text\"") + argument("list", "[\"word\"]") + extra));
  BOOST_TEST(!passes(code + argument("maybe", "text") + extra));
  BOOST_TEST(!passes(code + extra + argument("more", "1")));

  const auto refusal = [&](const char* text) {
    const auto parameters = boost::json::parse(text);
    const std::vector<engine::callable> one{{"f", &parameters}};
    const auto made = engine::make_call_grammar(frame, {one, false}, *bench.table);
    BOOST_REQUIRE_MESSAGE(made.has_error(), text);
    return made.error().message.substr(0, made.error().message.find(": ", 12));
  };
  BOOST_TEST(refusal(R"({"anyOf": [{"required": ["a"]}]})") == "tool \"f\": #/anyOf");
  BOOST_TEST(refusal(R"({"type": "array"})") == "tool \"f\": #/type");
  BOOST_TEST(refusal(R"({"properties": {"a<": {}}})") == "tool \"f\": #/properties/a<");
  BOOST_TEST(refusal(R"({"additionalProperties": {"type": "string"}})") ==
             "tool \"f\": #/additionalProperties");
  BOOST_TEST(refusal(R"({"properties": {"a": {"type": "string", "not": {"const": "b"}}}})") ==
             "tool \"f\": #/properties/a/not");
  BOOST_TEST(refusal(R"({"properties": {"a": {"const": "</parameter>"}}})") ==
             "tool \"f\": #/properties/a/const");
}

// Further arguments stand for none that is named: those have their place and their value.
BOOST_AUTO_TEST_CASE(further_arguments_are_others_than_the_named) {
  const auto schema = boost::json::parse(
      R"({"properties": {"n": {"type": "integer"}}, "required": ["n", "m"], "additionalProperties": true})");
  const std::vector<engine::callable> tools{{"f", &schema}};
  const auto passes = [&](call_format format, const std::string& text) {
    const frame_bench bench({{format, false}, false, true}, false);
    const auto program = engine::make_call_grammar(bench.frame, {tools, false}, *bench.table);
    BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
    engine::grammar::matcher m(*program, bench.table);
    return m.accept_text(text) && m.may_end();
  };
  const auto coder = [&](const std::vector<std::string>& names) {
    std::string text = "<tool_call>\n<function=f>\n";
    for (const auto& name : names) text += "<parameter=" + name + ">\n1\n</parameter>\n";
    return passes(call_format::qwen_coder, text + "</function>\n</tool_call>");
  };
  const auto python = [&](const std::string& arguments) {
    return passes(call_format::olmo, "<function_calls>\nf(" + arguments + ")\n</function_calls>");
  };
  BOOST_TEST(coder({"n", "m"}));
  BOOST_TEST(coder({"n", "m", "nn", "issue-number", "\u65E5\u671F"}));
  BOOST_TEST(coder({"n", "m", std::string(128, 'x')}));
  BOOST_TEST(!coder({"n", "m", std::string(129, 'x')}));
  BOOST_TEST(!coder({"n", "m", "n"}));
  BOOST_TEST(!coder({"n", "m", "x", "m"}));
  BOOST_TEST(python("n=1, m=\"a\", nn=2"));
  BOOST_TEST(!python("n=1, m=\"a\", n=\"b\""));
  BOOST_TEST(!python("n=1, m=\"a\", x=1, m=2"));
}

BOOST_AUTO_TEST_CASE(names_are_those_that_readers_take) {
  const auto refusal = [](call_format format, const boost::json::value& schema, bool strict = false) {
    const frame_bench bench({{format, false}, false, true}, false);
    const std::vector<engine::callable> tools{{"f", &schema, strict}};
    const auto made = engine::make_call_grammar(bench.frame, {tools, false}, *bench.table);
    return made ? std::string() : made.error().message;
  };
  const auto named = [](const std::string& name) {
    return boost::json::value{{"properties", {{name, {{"type", "string"}}}}}};
  };
  const auto olmo = call_format::olmo, coder = call_format::qwen_coder;
  for (const char* name : {"user-id", "9a", "a.b", "a'", "\u65E5\u671F", ""}) {
    BOOST_TEST(
        refusal(olmo, named(name)).starts_with("tool \"f\": #/properties/" + std::string(name) + ": "));
  }
  BOOST_TEST(refusal(olmo, named("_user_9")) == "");
  for (const char* name : {"user-id", "9a", "a.b", "\u65E5\u671F"})
    BOOST_TEST(refusal(coder, named(name)) == "");
  BOOST_TEST(refusal(coder, named(std::string(128, 'a'))) == "");
  BOOST_TEST(refusal(coder, named(std::string(129, 'a'))) != "");

  boost::json::object many;
  boost::json::array all;
  for (std::size_t i = 0; i < engine::arguments_max; ++i)
    all.emplace_back(many.emplace("p" + std::to_string(i), true).first->key());
  boost::json::value large{{"properties", many}, {"required", all}};
  BOOST_TEST(refusal(coder, large) == "");
  all.emplace_back("q");
  large.as_object()["required"] = all;
  for (const auto format : {olmo, coder}) {
    BOOST_TEST(refusal(format, large) == "tool \"f\": #: an object has 513 properties, the limit is 512");
    BOOST_TEST(
        refusal(format, {{"type", "object"}}, true).starts_with("tool \"f\": #/additionalProperties: "));
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_enforced_is_refused) {
  const frame_bench bench({{call_format::hermes, false}, false, true}, true);
  const std::vector<engine::callable> good{{"f", nullptr}};
  const boost::json::value bad = boost::json::parse(R"({"properties": {"a": {"not": {}}}})");
  const std::vector<engine::callable> wrong{{"f", nullptr}, {"g", &bad}};
  const std::vector<engine::callable> unnamed{{"f\"", nullptr}};
  const auto refusal = [&](const engine::output_format& format, std::span<const engine::callable> tools) {
    const auto made = engine::make_call_grammar({format}, {tools, false}, *bench.table);
    BOOST_REQUIRE(made.has_error());
    return made.error();
  };
  const engine::output_format hermes{call_format::hermes, false};
  BOOST_TEST(refusal({}, good).param == "tool_choice");
  const auto either = engine::make_response_grammar({}, nullptr, {}, *bench.table, {good, false});
  BOOST_TEST(either.error().param == "tool_choice");
  BOOST_TEST(refusal(hermes, {}).param == "tools");
  BOOST_TEST(refusal(hermes, unnamed).param == "tools");
  BOOST_TEST(refusal(hermes, wrong).message.starts_with("tool \"g\": #/properties/a/not: "));
}

BOOST_AUTO_TEST_CASE(many_large_tools_compile_within_the_limits) {
  const frame_bench bench({{call_format::hermes, false}, false, true}, true);
  const auto types = boost::json::parse(R"([{"type": "string", "description": "what it is, at some length"},
    {"type": "number"}, {"enum": ["one", "two", "three"]}, {"type": "array", "items": {"type": "string"}},
    {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": ["string", "null"]}}}])");
  std::vector<boost::json::value> schemas;
  std::size_t bytes = 0;
  for (int tool = 0; tool < 64; ++tool) {
    boost::json::object properties;
    for (std::size_t i = 0; i < 24; ++i) properties["argument_" + std::to_string(i)] = types.at(i % 5);
    schemas.emplace_back(boost::json::object{{"type", "object"}, {"properties", std::move(properties)}});
    bytes += boost::json::serialize(schemas.back()).size();
  }
  std::vector<engine::callable> tools;
  for (const auto& schema : schemas) tools.push_back({"tool_" + std::to_string(tools.size()), &schema});
  const double start = cpu_ms();
  const auto program = engine::make_call_grammar(bench.frame, {tools, true}, *bench.table);
  const double took = cpu_ms() - start;
  BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
  BOOST_TEST_MESSAGE(tools.size() << " tools of " << bytes << " bytes compiled in " << took << " ms");
  BOOST_TEST(bench.generate(*program, 1) != "");

  // The names of further arguments are told from those of each function.
  for (auto& schema : schemas) schema.as_object()["additionalProperties"] = true;
  const frame_bench elements({{call_format::qwen_coder, false}, false, true}, true);
  const std::vector<engine::callable> some(tools.begin(), tools.begin() + 48);
  const auto open = engine::make_call_grammar(elements.frame, {some, true}, *elements.table);
  BOOST_REQUIRE_MESSAGE(open.has_value(), (open ? "" : open.error().message));
}

BOOST_AUTO_TEST_CASE(a_mark_is_its_token_and_not_its_letters) {
  const frame_bench bench({{call_format::hermes, false}, false, true}, true);
  const std::vector<engine::callable> tools{{"f", nullptr}};
  const auto program = engine::make_call_grammar(bench.frame, {tools, false}, *bench.table);
  BOOST_REQUIRE(program.has_value());
  engine::grammar::matcher m(*program, bench.table);
  const auto mask = m.mask();
  for (engine::token_id t = 0; t < bench.vocabulary->end(); ++t) {
    BOOST_TEST(engine::allows(mask, t) == (bench.vocabulary->text(t) == "<tool_call>"));
  }
}

BOOST_AUTO_TEST_CASE(a_text_grammar_is_the_content_in_every_frame) {
  const std::vector<engine::grammar::text_grammar> grammars{
      {engine::grammar::text_grammar::kind::choice, "", {"a", "[1]"}},
      {engine::grammar::text_grammar::kind::regex, "a|\\[1\\]", {}},
      {engine::grammar::text_grammar::kind::grammar, "root ::= \"a\" | \"[\" one \"]\"\none ::= [1]", {}}};
  for (const auto& frame : frames()) {
    if (frame.format.calls == call_format::generic) continue;  // never beside tools
    for (const auto& text : grammars) {
      const frame_bench bench(frame, true);
      const auto program = engine::make_text_grammar(frame, text, "grammar", *bench.table);
      BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const output out = read(frame, bench.generate(*program, seed));
        BOOST_TEST((out.content == "a" || out.content == "[1]"), out.content);
      }
    }
  }
  const frame_bench bench(frames().front(), true);
  const auto refused = engine::make_text_grammar(
      frames().front(), {engine::grammar::text_grammar::kind::grammar, "root ::= a", {}}, "grammar",
      *bench.table);
  BOOST_REQUIRE(refused.has_error());
  BOOST_TEST(refused.error().message == "1:10: the rule \"a\" is not defined");
  BOOST_TEST(refused.error().param == "grammar");
}

BOOST_AUTO_TEST_SUITE_END()
