// Calls as models write them where they do not follow their own format: shapes that were reported, each with
// its right reading. What is not recovered is text, all of it, or a call whose arguments are no JSON.
#include <map>
#include <string>
#include <vector>

#include "engine/chat/argument_types.hpp"
#include "test/unit/chat/parted_output.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::answer_style;
using engine::call_format;
using engine::reasoning_style;

namespace {

engine::parse_options known() {
  static const auto made = engine::argument_types::of(boost::json::parse(R"([
    {"function": {"name": "get_weather", "parameters": {"properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}}}}},
    {"function": {"name": "run", "parameters": {"properties": {
      "command": {"type": "string"}, "times": {"type": "integer"}}}}},
    {"function": {"name": "now"}}])")
                                                          .as_array());
  return {true, false, made};
}
engine::parse_options in_reasoning() {
  auto out = known();
  out.in_reasoning = true;
  return out;
}

const engine::output_format hermes{call_format::hermes, true};
const engine::output_format llama{call_format::llama3, false};
const engine::output_format mistral{call_format::mistral, true, reasoning_style::brackets};
const engine::output_format harmony{call_format::harmony, false};
const engine::output_format granite{call_format::granite, true, reasoning_style::think,
                                    answer_style::response};
const engine::output_format command{call_format::command_r, false};
const engine::output_format action{call_format::action, true, reasoning_style::thinking,
                                   answer_style::response_tokens};
const engine::output_format fenced{call_format::tool_code, false};
const engine::output_format glm{call_format::glm, false};
const engine::output_format pairs{call_format::arg_pairs, true};
const engine::output_format coder{call_format::qwen_coder, true};
const engine::output_format seed{call_format::seed, true, reasoning_style::seed};
const engine::output_format olmo{call_format::olmo, true};
const engine::output_format internlm{call_format::internlm, false};

const std::string oslo = R"({"city": "Oslo"})";
const parted weather{"", "", {{"get_weather", oslo}}};
const std::string json_call = R"({"name": "get_weather", "arguments": {"city": "Oslo"}})";
const std::string unclosed_call = R"({"name": "get_weather", "arguments": {"city": "Oslo"})";
const std::string parameters_call = R"({"name": "get_weather", "parameters": {"city": "Oslo"}})";

parted all_text(const std::string& text) {
  return {text, "", {}};
}

using table = std::vector<expectation>;

table hermes_shapes() {
  const std::string tagged = "<tool_call>\n" + json_call + "\n</tool_call>";
  return {
      {hermes, "<tool_call>\n" + json_call, weather, known()},
      {hermes, "<tool_call>\n" + json_call + "}\n</tool_call>", weather, known()},
      {hermes, "<tool_call>\n" + unclosed_call + "\n</tool_call>", weather, known()},
      {hermes, "<tool_call>\n" + unclosed_call, weather, known()},
      {hermes, "<tool_call>[" + json_call + "]</tool_call>", weather, known()},
      {hermes, "<tool_call>" + parameters_call + "</tool_call>", weather, known()},
      {hermes, "<tool_call>\n<tool_call>\n" + json_call + "\n</tool_call>", weather, known()},
      // Several calls in one pair of marks.
      {hermes,
       "<tool_call>\n" + json_call + "\n" + json_call + "\n</tool_call>",
       {"", "", {{"get_weather", oslo}, {"get_weather", oslo}}},
       known()},
      // What is no escape of JSON: a regular expression, a quote as in JavaScript.
      {hermes,
       R"(<tool_call>{"name": "run", "arguments": {"command": "grep \d it\'s"}}</tool_call>)",
       {"", "", {{"run", R"({"command": "grep \\d it's"})"}}},
       known()},
      {hermes,
       R"(<tool_call>{"name": "now", "arguments": {}, "note": "x"}</tool_call>)",
       {"", "", {{"now", "{}"}}},
       known()},
      {hermes,
       R"(<tool_call>{"name": "run", "arguments": {"command": ls}}</tool_call>)",
       {"", "", {{"run", R"({"command": ls}})"}}},
       known()},
      // The model invents the result.
      {hermes, tagged + "\n<tool_response>\n20 degrees\n</tool_response>", weather, known()},
      // Reasoning that is never closed.
      {hermes, "<think>\nI look.\n" + tagged, {"", "I look.", {{"get_weather", oslo}}}, known()},
      {hermes,
       "I look.\n" + tagged + "\n" + tagged,
       {"", "I look.", {{"get_weather", oslo}, {"get_weather", oslo}}},
       in_reasoning()},
      {hermes,
       "With <tool_call> I look.\n" + tagged,
       {"", "With <tool_call> I look.", {{"get_weather", oslo}}},
       in_reasoning()},
      {hermes, "Now <tool_call>" + tagged, {"", "Now", {{"get_weather", oslo}}}, in_reasoning()},
      {hermes, "Not " + tagged + "?", {"", "Not " + tagged + "?", {}}, in_reasoning()},
      {hermes, "Not " + tagged + "</think>So.", {"So.", "Not " + tagged, {}}, in_reasoning()},
      {hermes,
       "I <tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
       {"", "I <tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>", {}},
       in_reasoning()},
      {hermes,
       "I <tool_call>{\"name\": \"now\", \"arguments\": {",
       {"", "I <tool_call>{\"name\": \"now\", \"arguments\": {", {}},
       in_reasoning()},
  };
}

table object_shapes() {
  const std::string granite_list = "[" + json_call + "]";
  const std::string fence = "```tool_code\n" + parameters_call + "\n```";
  return {
      {llama, parameters_call + "}", weather, known()},
      {llama, "<|python_tag|>" + parameters_call + "}", weather, known()},
      {llama, R"({"name": "get_weather", "parameters": {"city": "Oslo"})", weather, known()},
      {llama, R"({"name": "get_weather", "parameters": "{\"city\": \"Oslo\"}"})", weather, known()},
      {granite, "<tool_call>" + granite_list, weather, known()},
      {granite, granite_list, weather, known()},
      {granite, "<|tool_call|>[" + json_call, weather, known()},
      {granite,
       "<|tool_call|>[" + json_call + "\n" + json_call + "]",
       {"", "", {{"get_weather", oslo}, {"get_weather", oslo}}},
       known()},
      {granite, "[1, 2]", all_text("[1, 2]"), known()},
      {granite, R"([{"name": "Ann", "arguments": {}}])", all_text(R"([{"name": "Ann", "arguments": {}}])"),
       known()},
      {command, "Action: ```json\n[{\"tool_name\": \"get_weather\", \"parameters\": " + oslo + "}]\n```",
       weather, known()},
      {command, "Action:\n```json\n{\"tool_name\": \"get_weather\", \"parameters\": " + oslo + "}\n```",
       weather, known()},
      {action, "<|START_ACTION|>[{\"tool_name\": \"get_weather\", \"parameters\": " + oslo + "}]", weather,
       known()},
      {fenced, fence, weather, known()},
      {fenced, fence + "\n```tool_output\n20 degrees\n```\nIt is 20 degrees.", weather, known()},
      {fenced, "```tool_code\n" + parameters_call, weather, known()},
      {internlm, "<|action_start|><|plugin|>" + parameters_call, weather, known()},
      {internlm, "<|action_start|><|plugin|>" + parameters_call + "}<|action_end|>", weather, known()},
  };
}

table mistral_shapes() {
  const std::string list = "[" + json_call + "]";
  return {
      // Nemo leaves the mark out, or the list.
      {mistral, list, weather, known()},
      {mistral, " [ " + json_call + " ]\n", weather, known()},
      {mistral, "[TOOL_CALLS]" + json_call, weather, known()},
      {mistral, "[TOOL_CALLS] [" + json_call, weather, known()},
      {mistral,
       "[TOOL_CALLS][" + json_call + " " + json_call + "]",
       {"", "", {{"get_weather", oslo}, {"get_weather", oslo}}},
       known()},
      {mistral, "[TOOL_CALLS]get_weather" + oslo, weather, known()},
      {mistral, "[TOOL_CALLS]get_weather[ARGS]" + oslo + "}", weather, known()},
      {mistral,
       "[TOOL_CALLS]get_weather[ARGS]{\"city\": Oslo}",
       {"", "", {{"get_weather", "{\"city\": Oslo}"}}},
       known()},
      {mistral,
       "Yes.[TOOL_CALLS]" + list + "\n" + list,
       {"Yes.", "", {{"get_weather", oslo}, {"get_weather", oslo}}},
       known()},
      {mistral, "[TOOL_CALLS]" + list + " [1] is it.", {"[1] is it.", "", {{"get_weather", oslo}}}, known()},
      {mistral, "[1]", all_text("[1]"), known()},
      {mistral, "[TOOL_CALLS]" + list + "[TOOL_RESULTS]20[/TOOL_RESULTS]", weather, known()},
      // Ministral 3, whose reasoning is never closed.
      {mistral,
       "[THINK]I look.[TOOL_CALLS]get_weather[ARGS]" + oslo,
       {"", "I look.", {{"get_weather", oslo}}},
       known()},
      {mistral,
       "I look.[TOOL_CALLS]get_weather[ARGS]" + oslo + "[/THINK]Yes.",
       {"Yes.", "I look.[TOOL_CALLS]get_weather[ARGS]" + oslo, {}},
       in_reasoning()},
      {mistral,
       "I look.[TOOL_CALLS]other[ARGS]{}",
       {"", "I look.[TOOL_CALLS]other[ARGS]{}", {}},
       in_reasoning()},
  };
}

table harmony_shapes() {
  const std::string body = "<|message|>" + oslo;
  return {
      {harmony, "<|channel|>analysis to=functions.get_weather code" + body + "<|call|>", weather, known()},
      {harmony, "<|channel|>commentary to=get_weather" + body, weather, known()},
      {harmony, "<|channel|>commentary to=functions.get_weather <|constrain|>json" + body + "}<|call|>",
       weather, known()},
      {harmony,
       "<|channel|>commentary to=functions.now <|constrain|>json<|message|><|call|>",
       {"", "", {{"now", "{}"}}},
       known()},
      {harmony,
       "<|channel|>commentary to=functions.run json<|message|>{\"command\": ls}<|call|>",
       {"", "", {{"run", "{\"command\": ls}"}}},
       known()},
      {harmony,
       "<|channel|>commentary to=functions.run json<|message|>{\"command\": \"ls<|call|>",
       {"", "", {{"run", "{\"command\": \"ls"}}},
       known()},
  };
}

table named_shapes() {
  return {
      {glm, "get_weather\n" + oslo + "<|observation|>\n20 degrees<|assistant|>\nIt is 20 degrees.", weather,
       known()},
      {glm, "get_weather " + oslo + "}", weather, known()},
      {glm, "get_weather\n{\"city\": Oslo}", {"", "", {{"get_weather", "{\"city\": Oslo}"}}}, known()},
      {glm, "getweather\n" + oslo, all_text("getweather\n" + oslo), known()},
  };
}

table pair_shapes() {
  const std::string begin = "<tool_call>get_weather\n<arg_key>city</arg_key>\n", end = "\n</tool_call>";
  const std::string days = "<tool_call>get_weather\n<arg_key>days</arg_key>\n";
  return {
      {pairs, begin + "Oslo</arg_value>" + end, weather, known()},
      {pairs, begin + "<arg_value>Oslo</arg_value></arg_value>" + end, weather, known()},
      {pairs, begin + "<arg_value>Oslo</arg_value>\n</arg_key>" + end, weather, known()},
      {pairs, begin + "<arg_value>Oslo" + end, weather, known()},
      {pairs, begin + "Oslo" + end, weather, known()},
      {pairs, begin + "<arg_value>Oslo</arg_value>", weather, known()},
      {pairs, "<tool_call>get_weather\n<arg_key>city\n<arg_value>Oslo</arg_value>" + end, weather, known()},
      {pairs,
       begin + "<arg_value>Oslo\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>" + end,
       {"", "", {{"get_weather", R"({"city": "Oslo", "days": 2})"}}},
       known()},
      {pairs,
       days + "2</arg_value>\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>" + end,
       {"", "", {{"get_weather", R"({"days": 2, "city": "Oslo"})"}}},
       known()},
      {pairs,
       begin + "<arg_value>a</arg_value>b</arg_value>" + end,
       {"", "", {{"get_weather", R"({"city": "a</arg_value>b"})"}}},
       known()},
      // Nothing of it is a call.
      {pairs, days + end, all_text(days + end), known()},
      {pairs, days + "<arg_key>city</arg_key>" + end, all_text(days + "<arg_key>city</arg_key>" + end),
       known()},
      {pairs, "<tool_call>get_weather\nOslo</arg_value>" + end,
       all_text("<tool_call>get_weather\nOslo</arg_value>" + end), known()},
      {pairs, days + "<arg_value>2</arg_value>\nand" + end,
       all_text(days + "<arg_value>2</arg_value>\nand" + end), known()},
      // Reasoning that is never closed.
      {pairs,
       "<think>I look.\n" + begin + "<arg_value>Oslo</arg_value>" + end,
       {"", "I look.", {{"get_weather", oslo}}},
       known()},
      {pairs,
       "<think>I look.\n<tool_call>now\n</tool_call></think>No.",
       {"No.", "I look.\n<tool_call>now\n</tool_call>", {}},
       known()},
  };
}

const std::string ls = R"({"command": "ls"})";
const parted run{"", "", {{"run", ls}}};

std::string block(const std::string& value) {
  return "<function=run>\n<parameter=command>\n" + value + "\n</parameter>\n</function>";
}

table coder_shapes() {
  return {
      // Without the opening mark, as one in five is written.
      {coder, "I list.\n\n" + block("ls") + "\n</tool_call>", {"I list.", "", {{"run", ls}}}, known()},
      {coder, block("ls"), run, known()},
      {coder,
       block("ls") + "\n" + block("ls") + "\n</tool_call>",
       {"", "", {{"run", ls}, {"run", ls}}},
       known()},
      {coder, "<function=other>\n<parameter=a>\n1\n</parameter>\n</function>",
       all_text("<function=other>\n<parameter=a>\n1\n</parameter>\n</function>"), known()},
      {coder, "Write <function=run> for it.", all_text("Write <function=run> for it."), known()},
      {coder, "x <function=", all_text("x <function="), known()},
      // Values that hold what ends them.
      {coder,
       "<tool_call>\n" + block("grep \"</parameter>\" a.xml") + "\n</tool_call>",
       {"", "", {{"run", R"({"command": "grep \"</parameter>\" a.xml"})"}}},
       known()},
      {coder,
       "<tool_call>\n" + block("<a>\n</parameter>\n</a>") + "\n</tool_call>",
       {"", "", {{"run", R"({"command": "<a>\n</parameter>\n</a>"})"}}},
       known()},
      {coder,
       "<tool_call>\n" + block("echo </function></tool_call>") + "\n</tool_call>",
       {"", "", {{"run", R"({"command": "echo </function></tool_call>"})"}}},
       known()},
  };
}

/// Ends that are missing, reasoning that is never closed.
table unclosed_shapes() {
  const std::string begin = "<tool_call>\n<function=run>\n<parameter=command>\nls\n";
  return {
      {coder, begin + "</function>\n</tool_call>", run, known()},
      {coder, begin + "</parameter>\n</tool_call>", run, known()},
      {coder, begin + "</parameter>\n</function>", run, known()},
      {coder, begin + "</parameter>", run, known()},
      {coder, begin + "</tool_call>", run, known()},
      {coder, "<tool_call>\n<function=run>\n<parameter=command>\nls</parameter>\n</function>\n</tool_call>",
       run, known()},
      {coder,
       begin + "<parameter=times>\n2\n</parameter>\n</function>\n</tool_call>",
       {"", "", {{"run", R"({"command": "ls", "times": 2})"}}},
       known()},
      {coder, begin + "</parameter>\n</parameter>\n</function>\n</tool_call>", run, known()},
      // The model stops within a value.
      {coder,
       "<tool_call>\n<function=run>\n<parameter=command>\nls",
       {"", "", {{"run", R"({"command": "ls)"}}},
       known()},
      {coder, "<tool_call>\n<function=run>\n<parameter=times>\n2",
       all_text("<tool_call>\n<function=run>\n<parameter=times>\n2"), known()},
      {coder, "<tool_call>\n" + block("ls") + "\n</tool_call>\n<tool_response>\na.txt\n</tool_response>", run,
       known()},
      // Reasoning that is never closed (Qwen 3.5).
      {coder,
       "I list.\n<tool_call>\n" + block("ls") + "\n</tool_call>",
       {"", "I list.", {{"run", ls}}},
       in_reasoning()},
      {coder, "I list.\n" + block("ls"), {"", "I list.", {{"run", ls}}}, in_reasoning()},
      {coder,
       "I list.\n" + block("ls") + "</think>Well.",
       {"Well.", "I list.\n" + block("ls"), {}},
       in_reasoning()},
      {seed,
       "<seed:tool_call><function=run><parameter=command>grep \"</parameter>\" a</parameter></function>"
       "</seed:tool_call>",
       {"", "", {{"run", R"({"command": "grep \"</parameter>\" a"})"}}},
       known()},
      {seed,
       "So.\n" + block("ls") + "\n</seed:tool_call>",
       {"So.", "", {{"run", R"({"command": "\nls\n"})"}}},
       known()},
      {seed,
       "<seed:think>So.<seed:tool_call><function=now></function></seed:tool_call>",
       {"", "So.", {{"now", "{}"}}},
       known()},
  };
}

table python_shapes() {
  return {
      {olmo, "<function_calls>\nget_weather(city='Oslo')", weather, known()},
      {olmo, "<function_calls>\nget_weather(city='Oslo'))\n</function_calls>", weather, known()},
      {olmo,
       "<function_calls>f(a=(1, 'x', [2, (3,)]))</function_calls>",
       {"", "", {{"f", R"({"a": [1, "x", [2, [3]]]})"}}},
       known()},
      {olmo,
       "<function_calls>run(command='ls', times=2 + 1)</function_calls>",
       {"", "", {{"run", R"({"command": "ls", "times": 2+ 1))"}}},
       known()},
      {olmo, "<function_calls>run(command='ls'", {"", "", {{"run", R"({"command": "ls")"}}}, known()},
      {olmo,
       "<think>So.<function_calls>\nget_weather(city='Oslo')\n</function_calls>",
       {"", "So.", {{"get_weather", oslo}}},
       known()},
  };
}

std::map<std::string, table> tables() {
  return {{"hermes", hermes_shapes()},   {"objects", object_shapes()},    {"mistral", mistral_shapes()},
          {"harmony", harmony_shapes()}, {"named", named_shapes()},       {"pairs", pair_shapes()},
          {"coder", coder_shapes()},     {"unclosed", unclosed_shapes()}, {"python", python_shapes()}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(malformed_calls)

BOOST_AUTO_TEST_CASE(every_shape_has_its_reading_in_any_pieces) {
  for (const auto& [name, shapes] : tables()) {
    for (const auto& e : shapes) {
      BOOST_TEST(in_pieces(e.format, e.options, e.text, {}) == e.expected, name << ": " << e.text);
      BOOST_TEST(in_pieces(e.format, e.options, e.text, every_byte(e.text.size())) == e.expected,
                 name << " by bytes: " << e.text);
      BOOST_TEST(in_tokens(e.format, e.options, e.text) == e.expected, name << " by tokens: " << e.text);
    }
  }
}

// Where max_tokens cuts, a call of open reasoning is no call yet: the model may have gone on.
BOOST_AUTO_TEST_CASE(a_call_in_open_reasoning_is_none_where_the_output_is_cut) {
  const std::string text = "I look.\n<tool_call>\n" + json_call + "\n</tool_call>";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const auto got = in_pieces(hermes, in_reasoning(), text.substr(0, size), {}, engine::output_end::cut);
    BOOST_TEST(got.calls.empty());
    BOOST_TEST(got.content.empty());
    BOOST_TEST(text.starts_with(got.reasoning));
  }
}

// A grammar knows nothing of what is forgiven: there each call has its marks.
BOOST_AUTO_TEST_CASE(nothing_is_forgiven_where_a_grammar_promises_more) {
  auto strict = known();
  strict.lenient = false;
  const std::string block = "<function=run>\n<parameter=command>\nls\n</parameter>\n</function>";
  BOOST_TEST(in_pieces(coder, strict, block, {}) == all_text(block));
  BOOST_TEST(in_pieces(mistral, strict, "[" + json_call + "]", {}) == all_text("[" + json_call + "]"));
  strict.in_reasoning = true;
  const std::string tagged = "<tool_call>" + json_call + "</tool_call>";
  BOOST_TEST(in_pieces(hermes, strict, tagged, {}) == (parted{"", tagged, {}}));
  strict.in_reasoning = false;
  const std::string nested = "a\n<parameter=times>\nb";
  BOOST_TEST(in_pieces(coder, strict,
                       "<tool_call>\n<function=run>\n<parameter=command>\n" + nested +
                           "\n</parameter>\n</function>\n</tool_call>",
                       {}) == (parted{"", "", {{"run", R"({"command": "a\n<parameter=times>\nb"})"}}}));
}

BOOST_AUTO_TEST_SUITE_END()
