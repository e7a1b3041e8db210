// Free outputs with strict functions: what may be written, and what may not.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "engine/chat/output_grammar.hpp"
#include "engine/grammar/matcher.hpp"
#include "test/unit/chat/frame_bench.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::call_format;

namespace {

struct open_case {
  engine::output_format format;
  std::string text;
  bool allowed = true;
};

// \xFF is the byte before the text of a control token.
const std::string good = R"({"city": "Rome", "days": 3})";
const std::string bad = R"({"town": 1})";

std::vector<open_case> object_formats() {
  const engine::output_format hermes{call_format::hermes, true}, llama{call_format::llama3, false};
  const engine::output_format mistral{call_format::mistral, false}, harmony{call_format::harmony, false};
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
  return {
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
}

std::vector<open_case> other_formats() {
  const engine::output_format granite{call_format::granite}, pairs{call_format::arg_pairs},
      coder{call_format::qwen_coder}, seed{call_format::seed, true, engine::reasoning_style::seed},
      olmo{call_format::olmo}, glm{call_format::glm}, fenced{call_format::tool_code},
      command{call_format::command_r}, action{call_format::action};
  const auto coder_call = [](const std::string& name, const std::string& parameters) {
    return "\xFF<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n\xFF</tool_call>";
  };
  const std::string rome = "<parameter=city>\nRome\n</parameter>\n",
                    three = "<parameter=days>\n3\n</parameter>\n";
  const auto pair = [](const std::string& key, const std::string& value) {
    return "\n\xFF<arg_key>" + key + "\xFF</arg_key>\n\xFF<arg_value>" + value + "\xFF</arg_value>";
  };
  const auto pair_call = [](const std::string& name, const std::string& arguments) {
    return "\xFF<tool_call>" + name + arguments + "\n\xFF</tool_call>";
  };
  const auto named = [](const std::string& name, const std::string& arguments) {
    return "{\"tool_name\": \"" + name + "\", \"parameters\": " + arguments + "}";
  };
  return {
      {coder,
       "Ok: <function=f> <parameter=x>\n" + coder_call("f", rome + three) + " and " + coder_call("g", "")},
      {coder, coder_call("g", "<parameter=any>\n{1\n</parameter>\n")},
      {coder, coder_call("f", rome), false},
      {coder, coder_call("f", three + rome), false},
      {coder, coder_call("f", rome + "<parameter=days>\n12\n</parameter>\n"), false},
      {coder, coder_call("f", rome + "<parameter=days>\nmany\n</parameter>\n"), false},
      {coder, coder_call("f", "<parameter=city>\nRome and its hills\n</parameter>\n" + three), false},
      {coder, coder_call("f", rome + three + three), false},
      {coder, coder_call("h", ""), false},
      {coder, "spelled <tool_call>\n<function=f>\n</function>\n</tool_call>", false},
      {seed,
       "\xFF<seed:think>\xFF<seed:tool_call> f\xFF</seed:think>\n\xFF<seed:tool_call>\n<function=f>\n"
       "<parameter=city>Rome</parameter>\n<parameter=days>3</parameter>\n</function>\n\xFF</seed:tool_call>"},
      {seed, "\xFF<seed:tool_call>\n<function=f>\n</function>\n\xFF</seed:tool_call>", false},
      {pairs, "See " + pair_call("f", pair("city", "Rome") + pair("days", "3")) + pair_call("g", "")},
      {pairs, pair_call("g", pair("x", "any") + pair("x", "1"))},
      {pairs, pair_call("g", pair("issue-number", "1") + pair("\u65E5\u671F", "today"))},
      {pairs, pair_call("g", pair(std::string(128, 'a'), "1"))},
      {pairs, pair_call("g", pair(std::string(129, 'a'), "1")), false},
      {pairs, pair_call("g", pair("a b", "1")), false},
      {olmo, "\xFF<function_calls>\ng(issue-number=1)\n\xFF</function_calls>", false},
      {pairs, pair_call("f", pair("city", "Rome")), false},
      {pairs, pair_call("f", pair("city", "Rome") + pair("days", "0")), false},
      {olmo, "So.\xFF<function_calls>\nf(city=\"Rome\", days=3)\ng()\n\xFF</function_calls> Done."},
      {olmo, "\xFF<function_calls>f(days=3)\xFF</function_calls>", false},
      {olmo, "\xFF<function_calls>f(city=Rome, days=3)\xFF</function_calls>", false},
      {glm, "f\n" + good},
      {glm, "f is what I call.\n{}"},
      {glm, "f\n" + bad, false},
      {glm, "g\n" + bad + "\xFF<|assistant|>f\n" + bad, false},
      {granite, "\xFF<|tool_call|>[{\"name\": \"f\", \"arguments\": " + good +
                    "}, {\"name\": \"g\", \"arguments\": {}}]"},
      {granite, "\xFF<|tool_call|>[{\"name\": \"f\", \"arguments\": " + bad + "}]", false},
      {command,
       "Plan.\n\xFF"
       "Action:\n```json\n[\n    " +
           named("f", good) + ",\n    " + named("g", bad) + "\n]```"},
      {command, "Action: I write ```json {} ```"},
      {command, "Action:\n```json\n[" + named("f", bad) + "]```", false},
      {action, "\xFF<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": " +
                   good + "}\n]\xFF<|END_ACTION|>"},
      {action,
       "\xFF<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": " + bad +
           "}\n]\xFF<|END_ACTION|>",
       false},
      {fenced, "```python\nf()\n``` ```tool_code\n{\"name\": \"f\", \"parameters\": " + good + "}\n```"},
      {fenced, "```tool_code\n{\"name\": \"f\", \"parameters\": " + bad + "}\n```", false},
  };
}

std::vector<open_case> calls_in_a_list() {
  const engine::output_format lfm2{call_format::lfm2};
  return {
      {lfm2, "So.\xFF<|tool_call_start|>[f(city=\"Rome\", days=3), g()]\xFF<|tool_call_end|> Done."},
      {lfm2, "\xFF<|tool_call_start|>[f(days=3)]\xFF<|tool_call_end|>", false},
      {lfm2, "\xFF<|tool_call_start|>f(city=\"Rome\", days=3)\xFF<|tool_call_end|>", false},
  };
}

/// Two marks one after the other open a call.
std::vector<open_case> two_marks() {
  const engine::output_format internlm{call_format::internlm};
  const auto plain = [](const std::string& name, const std::string& arguments) {
    return "{\"name\": \"" + name + "\", \"parameters\": " + arguments + "}";
  };
  return {
      {internlm, "Ok \xFF<|action_start|>\xFF<|plugin|>\n" + plain("f", good) + "\xFF<|action_end|>." +
                     "\xFF<|action_start|>\xFF<|plugin|>" + plain("g", bad) + "\xFF<|action_end|>"},
      {internlm, "\xFF<|action_start|>\xFF<|interpreter|>\n{\"x\": 1}\xFF<|action_end|> <|plugin|>"},
      {internlm, "\xFF<|action_start|>\xFF<|plugin|>\n" + plain("f", bad) + "\xFF<|action_end|>", false},
      {internlm, "\xFF<|action_start|>\xFF<|plugin|>\n" + plain("h", good) + "\xFF<|action_end|>", false},
      {internlm, "<|action_start|><|plugin|>" + plain("f", bad) + "<|action_end|>", false},
  };
}

std::vector<open_case> texts_between_marks() {
  const engine::output_format gemma4{call_format::gemma4, true, engine::reasoning_style::channel};
  const std::string quote = "\xFF<|\"|>", rome = "city:" + quote + "Rome" + quote;
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "\xFF<|tool_call>call:" + name + "{" + arguments + "}\xFF<tool_call|>";
  };
  return {
      {gemma4,
       "Ok {a:1} " + call("f", rome + ",days:3") + call("g", "any:[" + quote + "\"" + quote + "]") + "."},
      {gemma4,
       "\xFF<|channel>thought\nI write <|tool_call> here\xFF<channel|>" + call("f", rome + ",days:3")},
      {gemma4, call("f", rome), false},
      {gemma4, call("f", rome + ",days:10"), false},
      {gemma4, call("f", "city:\"Rome\",days:3"), false},
      {gemma4, call("h", ""), false},
      {gemma4, "<|tool_call>call:f{}<tool_call|>", false},
  };
}

std::vector<open_case> open_cases() {
  auto out = object_formats();
  for (const auto& more : {other_formats(), calls_in_a_list(), two_marks(), texts_between_marks()})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(open_grammars)

// The same masks as for demanded calls, but between them anything may come.
BOOST_AUTO_TEST_CASE(a_strict_function_is_only_called_with_valid_arguments) {
  for (const auto& frame : frames()) {
    if (frame.format.calls == call_format::generic) continue;  // it leaves no text free
    const frame_bench bench(frame, true);
    const std::vector<engine::callable> tools{{"get_weather", &strict_weather(), true},
                                              {"stop", nullptr, false}};
    const auto program = engine::make_open_grammar(frame, tools, *bench.table);
    BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      const std::string text = bench.generate(*program, seed);
      for (const auto& [name, arguments] : read(frame, text, tools).calls) {
        if (name == "get_weather") BOOST_TEST(bench.valid(strict_weather(), arguments), text);
      }
    }
  }
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
    if (frame.format.calls == call_format::generic) continue;  // it leaves no text free
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

BOOST_AUTO_TEST_SUITE_END()
