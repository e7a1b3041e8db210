// Outputs generated at random from the masks of a framed grammar: the parser finds in them the calls, or the
// content, that the grammar promises.
#include "engine/chat/output_grammar.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <random>

#include "engine/chat/output_parser.hpp"
#include "engine/grammar/matcher.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

using namespace orcd;
using engine::call_format;
using kind = engine::output_delta::kind;

namespace {

struct output {
  std::string content, reasoning;
  std::vector<std::pair<std::string, std::string>> calls;
};

output read(const engine::output_frame& frame, const std::string& text) {
  engine::output_parser parser(frame.format, {true, frame.in_reasoning});
  output out;
  const auto add = [&](const engine::output_deltas& deltas) {
    for (const auto& d : deltas) {
      if (d.what == kind::content) out.content += d.text;
      if (d.what == kind::reasoning) out.reasoning += d.text;
      if (d.what == kind::call) out.calls.emplace_back(d.name, "");
      if (d.what == kind::arguments) out.calls.back().second += d.text;
    }
  };
  add(parser.push(text));
  add(parser.finish());
  return out;
}

struct frame_bench {
  /// Whether the marks are control tokens of the vocabulary.
  frame_bench(const engine::output_frame& f, bool tokens) : frame(f) {
    std::vector<std::string> control;
    for (const auto mark : engine::marks_of(frame.format)) {
      if (tokens) control.emplace_back(mark);
    }
    control.emplace_back("<end>");
    vocabulary = std::make_unique<test::piece_tokenizer>(test::json_pieces(), control);
    table = engine::grammar::make_token_table(*vocabulary, vocabulary->vocab_size());
  }

  std::string generate(const std::shared_ptr<const engine::grammar::program>& program,
                       std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    engine::grammar::matcher m(program, table);
    std::string text;
    for (int i = 0; i < 3'000; ++i) {
      if (m.complete()) return text;
      const auto mask = m.mask();
      std::vector<engine::token_id> all, closing;
      for (engine::token_id t = 0; t < static_cast<engine::token_id>(vocabulary->vocab_size()); ++t) {
        if (!engine::allows(mask, t)) continue;
        all.push_back(t);
        const std::string& piece = vocabulary->text(t);
        // Marks are preferred where they may come, or random reasoning would not end.
        if (piece == "\"" || piece == "}" || piece == "]" || vocabulary->is_control(t)) closing.push_back(t);
      }
      BOOST_REQUIRE_MESSAGE(!all.empty(), text);
      const auto& from = !closing.empty() && random() % 3 == 0 ? closing : all;
      const engine::token_id token = from[random() % from.size()];
      if (token == vocabulary->end()) return text;
      BOOST_REQUIRE(m.accept(token));
      text += vocabulary->text(token);
    }
    return {};
  }

  bool valid(const boost::json::value& schema, const std::string& text) const {
    const auto program = engine::grammar::compile_json_schema(schema);
    BOOST_REQUIRE(program.has_value());
    engine::grammar::matcher m(*program, table);
    return m.accept_text(text) && m.may_end();
  }

  engine::output_frame frame;
  std::unique_ptr<test::piece_tokenizer> vocabulary;
  std::shared_ptr<const engine::grammar::token_table> table;
};

const boost::json::value& weather() {
  static const boost::json::value schema = boost::json::parse(R"({"type": "object", "properties": {
    "city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city"], "additionalProperties": false})");
  return schema;
}

/// The same as strict mode wants it.
const boost::json::value& strict_weather() {
  static const boost::json::value schema = [] {
    auto value = weather();
    value.as_object()["required"] = {"city", "days"};
    return value;
  }();
  return schema;
}

std::vector<engine::output_frame> frames() {
  std::vector<engine::output_frame> out;
  for (const auto calls :
       {call_format::hermes, call_format::llama3, call_format::mistral, call_format::harmony}) {
    for (const bool think : {false, true}) {
      if (think && calls == call_format::harmony) continue;
      out.push_back({{calls, think}, false, true});
      if (think) out.push_back({{calls, think}, true, true});
      if (think) out.push_back({{calls, think}, false, false});
    }
  }
  return out;
}

}  // namespace

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
          const output out = read(frame, text);
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
      const bool many =
          frame.format.calls == call_format::hermes || frame.format.calls == call_format::mistral;
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
      const output out = read(frame, text);
      BOOST_TEST((out.calls.size() == 1U) != bench.valid(schema, out.content), text);
      if (!out.calls.empty()) BOOST_TEST(bench.valid(weather(), out.calls[0].second), text);
      ++(out.calls.empty() ? answers : calls);
    }
    BOOST_TEST((answers > 0 && calls > 0));
  }
}

// The same masks as for demanded calls, but between them anything may come.
BOOST_AUTO_TEST_CASE(a_strict_function_is_only_called_with_valid_arguments) {
  for (const auto& frame : frames()) {
    const frame_bench bench(frame, true);
    const std::vector<engine::callable> tools{{"get_weather", &strict_weather(), true},
                                              {"stop", nullptr, false}};
    const auto program = engine::make_open_grammar(frame, tools, *bench.table);
    BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const std::string text = bench.generate(*program, seed);
      for (const auto& [name, arguments] : read(frame, text).calls) {
        if (name == "get_weather") BOOST_TEST(bench.valid(strict_weather(), arguments), text);
      }
    }
  }
}

struct open_case {
  engine::output_format format;
  std::string text;
  bool allowed = true;
};

// M is the byte before the text of a control token.
const std::vector<open_case>& open_cases() {
  static const std::string good = R"({"city": "Rome", "days": 3})";
  static const std::string bad = R"({"town": 1})";
  static const engine::output_format hermes{call_format::hermes, true}, llama{call_format::llama3, false};
  static const engine::output_format mistral{call_format::mistral, false},
      harmony{call_format::harmony, false};
  const auto hermes_call = [](const std::string& name, const std::string& arguments) {
    return "\xFF<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments +
           "}\n\xFF</tool_call>";
  };
  const auto llama_call = [](const std::string& name, const std::string& arguments) {
    return "{\"name\": \"" + name + "\", \"parameters\": " + arguments + "}";
  };
  const std::string head =
      "\xFF<|channel|>analysis\xFF<|message|>Hm, to=functions.f.\xFF<|end|>\xFF<|start|>assistant";
  const auto to = [](const std::string& name, const std::string& arguments) {
    return "\xFF<|channel|>commentary to=functions." + name + " \xFF<|constrain|>json\xFF<|message|>" +
           arguments;
  };
  static const std::vector<open_case> list{
      {hermes, "Any text: {\"name\": \"f\", \"arguments\": 1} <tool> \xFF<think> < <tool_cal"},
      {hermes, "Yes.\n" + hermes_call("f", good) + "\n" + hermes_call("g", bad) + " Done."},
      {hermes, "\xFF<think>I write <tool_call> here\xFF</think>\n\n" + hermes_call("f", good)},
      {hermes, hermes_call("f", bad), false},
      {hermes, "\xFF<think>no\xFF</think>" + hermes_call("f", bad), false},
      {hermes, "spelled <tool_call>\n{\"name\": \"f\", \"arguments\": {\"town", false},
      {hermes, hermes_call("h", good), false},
      {llama, "Text, then {\"name\": \"f\", \"parameters\": {}}"},
      {llama, " {\"answer\": [1, {\"name\": \"f\"}]}"},
      {llama, "{\"name\": \"Ann\", \"age\": 3}"},
      {llama, llama_call("f", good)},
      {llama, "\xFF<|python_tag|>" + llama_call("g", bad) + "; " + llama_call("f", good)},
      {llama, "\xFF<|python_tag|>print(1)"},
      {llama, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": " + good + "}"},
      {llama, llama_call("f", bad), false},
      {llama, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": " + bad + "}", false},
      {llama, "ok \xFF<|python_tag|>" + llama_call("f", bad), false},
      {llama, llama_call("g", bad) + "; " + llama_call("f", bad), false},
      {llama, llama_call("x", bad) + "; " + llama_call("f", bad), false},
      {llama, "{\"parameters\": " + bad + ", \"name\": \"f\"}", false},
      {llama, "{\"name\": \"\\u0066\", \"parameters\": " + bad + "}", false},
      {mistral, "See [1], {\"name\": \"f\"}."},
      {mistral, "Ok.\xFF[TOOL_CALLS]f\xFF[ARGS]" + good + "\xFF[TOOL_CALLS]g\xFF[ARGS]" + bad},
      {mistral, "\xFF[TOOL_CALLS]f\xFF[ARGS]" + bad, false},
      {mistral, "[TOOL_CALLS]f[ARGS]" + bad, false},
      {harmony, "Plain text."},
      {harmony, head + "\xFF<|channel|>final\xFF<|message|>to=functions.f is " + bad},
      {harmony, head + to("f", good)},
      {harmony, head + to("g", "anything")},
      {harmony, head + to("first", "anything")},
      {harmony, " to=functions.f\xFF<|channel|>commentary json\xFF<|message|>" + good},
      {harmony, head + to("f", bad), false},
      {harmony, " to=functions.f\xFF<|channel|>commentary json\xFF<|message|>" + bad, false},
      {harmony, "<|channel|>commentary to=f<|message|>" + bad, false},
      {harmony, head + to("g", "{}") + "\xFF<|call|>\xFF<|start|>assistant" + to("f", bad), false},
  };
  return list;
}

BOOST_AUTO_TEST_CASE(free_text_stays_free_and_wrong_arguments_do_not_pass) {
  for (const auto& [format, text, allowed] : open_cases()) {
    const frame_bench bench({format, false, true}, true);
    const std::vector<engine::callable> tools{{"f", &strict_weather(), true}, {"g", nullptr, false}};
    const auto program = engine::make_open_grammar({format, false, true}, tools, *bench.table);
    BOOST_REQUIRE(program.has_value());
    engine::grammar::matcher m(*program, bench.table);
    const bool passed = m.accept_text(text) && m.may_end();
    BOOST_TEST(passed == allowed, text);
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_masked_before_a_call) {
  for (const auto& frame : frames()) {
    const frame_bench bench(frame, true);
    const std::vector<engine::callable> tools{{"f", &strict_weather(), true}};
    const auto program = engine::make_open_grammar(frame, tools, *bench.table);
    BOOST_REQUIRE(program.has_value());
    engine::grammar::matcher m(*program, bench.table);
    BOOST_REQUIRE(m.accept_text("Free"));
    const auto mask = m.mask();
    for (engine::token_id t = 0; t < static_cast<engine::token_id>(bench.vocabulary->vocab_size()); ++t) {
      BOOST_TEST(engine::allows(mask, t), bench.vocabulary->text(t));
    }
    BOOST_TEST(!m.complete());
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
  const auto start = std::chrono::steady_clock::now();
  const auto program = engine::make_call_grammar(bench.frame, {tools, true}, *bench.table);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
  BOOST_TEST_MESSAGE(tools.size() << " tools of " << bytes << " bytes compiled in " << took.count() << " ms");
  BOOST_TEST(bench.generate(*program, 1) != "");
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
      {engine::grammar::text_grammar::kind::gbnf, "root ::= \"a\" | \"[\" one \"]\"\none ::= [1]", {}}};
  for (const auto& frame : frames()) {
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
      frames().front(), {engine::grammar::text_grammar::kind::gbnf, "root ::= a", {}}, "grammar",
      *bench.table);
  BOOST_REQUIRE(refused.has_error());
  BOOST_TEST(refused.error().message == "1:10: the rule \"a\" is not defined");
  BOOST_TEST(refused.error().param == "grammar");
}

BOOST_AUTO_TEST_SUITE_END()
