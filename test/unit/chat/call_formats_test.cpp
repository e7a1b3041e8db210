// The formats in which calls are not one JSON object in <tool_call>: whole outputs, cut anywhere, damaged,
// and arguments that are text, by the functions' schemas.
#include <algorithm>
#include <map>

#include "engine/chat/argument_types.hpp"
#include "engine/chat/call_syntax.hpp"
#include "test/support/thread_time.hpp"
#include "test/unit/chat/parted_output.hpp"
#include "test/unit/jinja/render_case.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::answer_style;
using engine::call_format;
using engine::reasoning_style;
using kind = engine::output_delta::kind;

namespace {

std::shared_ptr<const engine::argument_types> types() {
  static const auto made = engine::argument_types::of(boost::json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "s": {"type": "string"}, "i": {"type": "integer"}, "b": {"type": "boolean"},
      "l": {"type": "array", "items": {"type": "string"}}, "o": {"$ref": "#/$defs/point"},
      "m": {"type": ["string", "null"]}, "e": {"enum": ["x", "y"]}, "any": {"description": "what you like"},
      "u": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
      "$defs": {"point": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "g"}}])")
                                                          .as_array());
  return made;
}

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
const engine::output_format lfm2{call_format::lfm2, true};
const engine::output_format internlm{call_format::internlm, false};
const engine::output_format gemma4{call_format::gemma4, true, reasoning_style::channel};
const engine::output_format magistral{call_format::mistral, true, reasoning_style::brackets};
const engine::output_format ernie{call_format::hermes, true, reasoning_style::think, answer_style::response};

engine::parse_options known() {
  return {true, false, types()};
}

const std::vector<expectation> object_outputs{
    {granite,
     "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"i\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
     {"", "", {{"f", "{\"i\": 1}"}, {"g", "{}"}}}},
    {granite, "<|tool_call|>{\"name\": \"f\", \"arguments\": {}}", {"", "", {{"f", "{}"}}}},
    {granite, "<|tool_call|>[] none", {"<|tool_call|>[] none", "", {}}},
    {granite, "<think>Hm.</think><response>Yes.</response>", {"Yes.", "Hm.", {}}},
    {granite, "a <response> b </response>", {"a <response> b </response>", "", {}}},
    {ernie,
     "Hm.\n</think>\n\n<response>\nA moment.\n</response>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": "
     "{}}\n</tool_call>\n",
     {"A moment.", "Hm.", {{"f", "{}"}}},
     {true, true}},
    {command,
     "Action:\n```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": {\n            "
     "\"i\": 1\n"
     "        }\n    },\n    {\n        \"tool_name\": \"g\",\n        \"parameters\": {}\n    }\n]```",
     {"", "", {{"f", "{\n            \"i\": 1\n        }"}, {"g", "{}"}}}},
    {command, "Plan: look.\nAction:\n```json\n[]```", {"Plan: look.\nAction:\n```json\n[]```", "", {}}},
    {command, "Action: none. ```json\n{}\n```", {"Action: none. ```json\n{}\n```", "", {}}},
    {action,
     "<|START_THINKING|>I look.<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", "
     "\"tool_name\": "
     "\"f\", \"parameters\": {\"s\": \"<|END_ACTION|>\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": "
     "\"g\", "
     "\"parameters\": {}}\n]<|END_ACTION|>",
     {"", "I look.", {{"f", "{\"s\": \"<|END_ACTION|>\"}"}, {"g", "{}"}}}},
    {action, "<|START_RESPONSE|>Hello.<|END_RESPONSE|>", {"Hello.", "", {}}},
    {action,
     "<|START_ACTION|>[{\"tool_name\": 1}]<|END_ACTION|>",
     {"<|START_ACTION|>[{\"tool_name\": 1}]<|END_ACTION|>", "", {}}},
    {fenced,
     "I look.\n```tool_code\n{\"name\": \"f\", \"parameters\": {\"i\": 1}}\n```\n",
     {"I look.", "", {{"f", "{\"i\": 1}"}}}},
    {fenced,
     "```tool_code\n[{\"name\": \"f\", \"parameters\": {}}, {\"name\": \"g\", \"parameters\": {}}]\n```",
     {"", "", {{"f", "{}"}, {"g", "{}"}}}},
    {fenced, "```tool_code\nprint(1)\n```", {"```tool_code\nprint(1)\n```", "", {}}},
    {fenced, "```python\nx = {}\n```", {"```python\nx = {}\n```", "", {}}},
    {internlm,
     "I look.<|action_start|><|plugin|>\n{\"name\": \"f\", \"parameters\": {\"s\": "
     "\"<|action_end|><|plugin|>\"}}"
     "<|action_end|>\n",
     {"I look.", "", {{"f", "{\"s\": \"<|action_end|><|plugin|>\"}"}}}},
    {internlm,
     "<|action_start|><|plugin|>{\"name\": \"f\", \"arguments\": "
     "{}}<|action_end|><|action_start|><|plugin|>\n"
     "{\"name\": \"g\", \"parameters\": {\"i\": 1}}<|action_end|>",
     {"", "", {{"f", "{}"}, {"g", "{\"i\": 1}"}}}},
    {internlm,
     "So:<|action_start|><|interpreter|>\n```python\n{}\n```<|action_end|>",
     {"So:<|action_start|><|interpreter|>\n```python\n{}\n```<|action_end|>", "", {}}},
    {internlm,
     "<|action_start|><|action_start|><|plugin|>{\"name\": \"f\", \"parameters\": {}}<|action_end|>",
     {"<|action_start|>", "", {{"f", "{}"}}}},
    {internlm,
     "<|action_start|> <|plugin|>{\"name\": \"f\"}",
     {"<|action_start|> <|plugin|>{\"name\": \"f\"}", "", {}}},
    {internlm, "<|plugin|>{} <|action_start|>", {"<|plugin|>{} <|action_start|>", "", {}}},
    {magistral,
     "[THINK]Hm, [TOOL_CALLS].[/THINK]Well.[TOOL_CALLS]f[ARGS]{\"i\": 1}",
     {"Well.", "Hm, [TOOL_CALLS].", {{"f", "{\"i\": 1}"}}}},
};

const std::vector<expectation> named_outputs{
    {glm, "f\n{\"i\": 1}", {"", "", {{"f", "{\"i\": 1}"}}}, known()},
    {glm, "\nf\n{\"i\": 1}", {"", "", {{"f", "{\"i\": 1}"}}}, known()},
    {glm, "f\n{}<|assistant|>g\n{\"a\": 2}", {"", "", {{"f", "{}"}, {"g", "{\"a\": 2}"}}}, known()},
    {glm, "h\n{\"i\": 1}", {"h\n{\"i\": 1}", "", {}}, known()},
    {glm, "f is a function\n{}", {"f is a function\n{}", "", {}}, known()},
    {glm, "Hello f\n{}", {"Hello f\n{}", "", {}}, known()},
    {glm, "f\n{\"i\": 1}", {"f\n{\"i\": 1}", "", {}}, {false, false, types()}},
};

const std::vector<expectation> element_outputs{
    {pairs,
     "\n<think>Hm.</think>\nI "
     "look.\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>12</arg_value>\n<arg_key>i"
     "</arg_key>\n<arg_value>12</arg_value>\n</tool_call>",
     {"I look.", "Hm.", {{"f", "{\"s\": \"12\", \"i\": 12}"}}},
     known()},
    {pairs,
     "<tool_call>f<arg_key>l</arg_key><arg_value>[\"</arg_value>\", "
     "\"b\"]</arg_value></tool_call><tool_call>g"
     "</tool_call>",
     {"", "", {{"f", "{\"l\": [\"</arg_value>\", \"b\"]}"}, {"g", "{}"}}},
     known()},
    {pairs, "<tool_call>not a call</tool_call>", {"<tool_call>not a call</tool_call>", "", {}}, known()},
    {pairs, "<tool_call></tool_call>", {"<tool_call></tool_call>", "", {}}, known()},
    {pairs,
     "<tool_call>g\n<arg_key>a</arg_key>\n<arg_value>say "
     "\"hi\"\n\\</arg_value>\n<arg_key>b</arg_key>\n<arg_value>"
     "{\"x\": 1}</arg_value></tool_call>",
     {"", "", {{"g", "{\"a\": \"say \\\"hi\\\"\\n\\\\\", \"b\": {\"x\": 1}}"}}},
     known()},
    {coder,
     "Ok.\n<tool_call>\n<function=f>\n<parameter=s>\nline <b>1</b>\n\n</parameter>\n<parameter=b>\nTrue\n"
     "</parameter>\n<parameter=o>\n{\"a\": \"</parameter>\"}\n</parameter>\n</function>\n</tool_call>",
     {"Ok.", "", {{"f", "{\"s\": \"line <b>1</b>\\n\", \"b\": true, \"o\": {\"a\": \"</parameter>\"}}"}}},
     known()},
    {coder,
     "<tool_call>\n<function=f>\n<parameter=s>x</parameter>\n<parameter=i>\nmany\n</parameter>\n</function>\n"
     "</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
     {"", "", {{"f", "{\"s\": \"x\", \"i\": \"many\"}"}, {"g", "{}"}}},
     known()},
    {coder,
     "<tool_call>\n<function=g>\n</function>\n<function=g>\n</function>\n</tool_call> end",
     {"end", "", {{"g", "{}"}, {"g", "{}"}}},
     known()},
    {coder, "<tool_call>\n<function=g>\n</tool_call>", {"", "", {{"g", "{}"}}}, known()},
    {coder,
     "<tool_call>\n<function=f>\n<parameter=m>\nnull\n</parameter>\n<parameter=e>\nx\n</"
     "parameter>\n<parameter=u>\n"
     "1.5\n</parameter>\n<parameter=any>\n\"quoted\"\n</parameter>\n<parameter=zz>\n</parameter>\n</"
     "function>\n"
     "</tool_call>",
     {"", "", {{"f", "{\"m\": null, \"e\": \"x\", \"u\": 1.5, \"any\": \"quoted\", \"zz\": \"\"}"}}},
     known()},
    {coder,
     "<tool_call>\n<function=f>\n<parameter=any>\n[see \"x\n</parameter>\n<parameter=zz>\n{\"\n"
     "</parameter>\n<parameter=m>\n[\"\n</parameter>\n</function>\n</tool_call>",
     {"", "", {{"f", R"({"any": "[see \"x", "zz": "{\"", "m": "[\""})"}}},
     known()},
    {coder, "<tool_call>\n<function=f g>", {"<tool_call>\n<function=f g>", "", {}}, known()},
    {seed,
     "<seed:think>Hm.</seed:think>\nI look.\n<seed:tool_call>\n<function=f>\n<parameter=s> a\nb "
     "</parameter>\n"
     "<parameter=l>[]</parameter>\n</function>\n</seed:tool_call>",
     {"I look.", "Hm.", {{"f", "{\"s\": \" a\\nb \", \"l\": []}"}}},
     known()},
};

const std::vector<expectation> python_outputs{
    {olmo,
     "<function_calls>\nf(s='it\\'s \"x\"', i=-2, b=True, m=None, l=['a', \"b\",], o={'k': [1, 2.5]})\ng()\n"
     "</function_calls>",
     {"",
      "",
      {{"f",
        "{\"s\": \"it's \\\"x\\\"\", \"i\": -2, \"b\": true, \"m\": null, \"l\": [\"a\", \"b\"], \"o\": "
        "{\"k\": [1, 2.5]}}"},
       {"g", "{}"}}}},
    {olmo,
     "<function_calls>f(a=\"\\x41\\d\\u00e9</function_calls>\")</function_calls> ok",
     {"ok", "", {{"f", "{\"a\": \"\\u0041\\\\d\\u00e9</function_calls>\"}"}}}},
    {olmo,
     "<function_calls>not a call</function_calls>",
     {"<function_calls>not a call</function_calls>", "", {}}},
    {olmo, "<function_calls>f(a=(1, 2))</function_calls>", {"", "", {{"f", "{\"a\": [1, 2]}"}}}},
    {olmo, "<function_calls>f(a=tru", {"", "", {{"f", "{\"a\": tru"}}}},
    {olmo, "<function_calls>f(a=foo)</function_calls>", {"", "", {{"f", "{\"a\": foo)"}}}},
    {olmo, "<function_calls>f(a=[1, 2x])</function_calls>", {"", "", {{"f", "{\"a\": [1, 2x])"}}}},
    {olmo,
     R"(<function_calls>f(a='\012\1018\0x\7', b="\U0001F600\U000000e9", c='\/')</function_calls>)",
     {"", "", {{"f", R"({"a": "\u000a\u00418\u0000x\u0007", "b": "\ud83d\ude00\u00e9", "c": "\\/"})"}}}},
    {olmo, R"(<function_calls>f(a="\/")</function_calls>)", {"", "", {{"f", R"({"a": "\/"})"}}}},
    {olmo, R"(<function_calls>f(a='\U0011zz')</function_calls>)", {"", "", {{"f", R"({"a": "\U0011zz'))"}}}},
    {lfm2,
     "<think>Hm.</think>I look.<|tool_call_start|>[f(s='it\\'s', b=True, l=['a'], o={\"k\": [1, null]}), g()]"
     "<|tool_call_end|>",
     {"I look.",
      "Hm.",
      {{"f", "{\"s\": \"it's\", \"b\": true, \"l\": [\"a\"], \"o\": {\"k\": [1, null]}}"}, {"g", "{}"}}}},
    {lfm2, "<|tool_call_start|>[g()]<|tool_call_end|> ok", {"ok", "", {{"g", "{}"}}}},
    {lfm2, "<|tool_call_start|>g()<|tool_call_end|>", {"", "", {{"g", "{}"}}}},
    {lfm2, "<|tool_call_start|>[f(s=\"a\", b=false", {"", "", {{"f", "{\"s\": \"a\", \"b\": false"}}}},
    {lfm2,
     "<|tool_call_start|>[1, 2]<|tool_call_end|>",
     {"<|tool_call_start|>[1, 2]<|tool_call_end|>", "", {}}},
    {olmo,
     R"(<function_calls>f(a='\U00110000')</function_calls>)",
     {"", "", {{"f", R"({"a": "\U00110000'))"}}}},
};

std::vector<expectation> expectations() {
  std::vector<expectation> out;
  for (const auto* part : {&object_outputs, &named_outputs, &element_outputs, &python_outputs}) {
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(call_formats)

BOOST_AUTO_TEST_CASE(whole_outputs_and_split_at_every_position) {
  for (const auto& e : expectations()) {
    BOOST_TEST(in_pieces(e.format, e.options, e.text, {}) == e.expected, e.text);
    for (std::size_t at = 1; at < e.text.size(); ++at)
      BOOST_TEST(in_pieces(e.format, e.options, e.text, {at}) == e.expected, e.text);
    BOOST_TEST(in_pieces(e.format, e.options, e.text, every_byte(e.text.size())) == e.expected, e.text);
    BOOST_TEST(in_tokens(e.format, e.options, e.text) == e.expected, e.text);
  }
}

BOOST_AUTO_TEST_CASE(pieces_of_damaged_outputs_do_not_matter) {
  std::mt19937 random(12);
  for (const auto& e : expectations()) {
    for (int i = 0; i < 200; ++i) {
      const std::string text = damaged(e.text, random);
      const auto whole = in_pieces(e.format, e.options, text, {});
      BOOST_TEST(in_pieces(e.format, e.options, text, random_cuts(text.size(), random)) == whole, text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_text_is_sent_while_it_comes) {
  for (const auto& [format, begin] : {std::pair{coder, "<tool_call>\n<function=f>\n<parameter=s>\n"},
                                      {seed, "<seed:tool_call><function=f><parameter=s>"},
                                      {pairs, "<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>"},
                                      {olmo, "<function_calls>\nf(s='"},
                                      {lfm2, "<|tool_call_start|>[f(s='"},
                                      {gemma4, "<|tool_call>call:f{s:<|\"|>"}}) {
    engine::output_parser parser(format, known());
    const auto first = parser.push(begin);
    BOOST_REQUIRE_EQUAL(first.size(), 2U);
    BOOST_TEST(first[0].name == "f");
    BOOST_TEST(first[1].text == "{\"s\": \"");
    const auto second = parser.push("one <two");
    BOOST_REQUIRE_EQUAL(second.size(), 1U);
    BOOST_TEST(second[0].text == "one <two");
  }
}

BOOST_AUTO_TEST_CASE(a_value_that_never_ends_is_kept_up_to_a_limit) {
  engine::output_parser parser(coder, known());
  parted out;
  add(out, parser.push("<tool_call><function=f><parameter=l>["));
  const std::string many(3U << 20U, ' ');
  add(out, parser.push(many + "rest"));
  add(out, parser.finish());
  BOOST_TEST(out.calls.empty());
  BOOST_TEST(out.content.starts_with("<tool_call><function=f><parameter=l>["));
  BOOST_TEST(out.content.ends_with("rest"));
}

BOOST_AUTO_TEST_CASE(types_are_those_of_the_schema) {
  const auto kinds = [](const char* schema) {
    const auto root = boost::json::parse(schema);
    return static_cast<int>(engine::kinds_of(root, root));
  };
  BOOST_TEST(kinds(R"({"type": "string"})") == engine::text_kind);
  BOOST_TEST(kinds(R"({"type": "integer", "nullable": true})") == (engine::number_kind | engine::null_kind));
  BOOST_TEST(kinds(R"({"const": "a"})") == engine::text_kind);
  BOOST_TEST(kinds(R"({"enum": [1, "a", null]})") ==
             (engine::number_kind | engine::text_kind | engine::null_kind));
  BOOST_TEST(kinds(R"({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}})") == engine::array_kind);
  BOOST_TEST(kinds(R"({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}})") == engine::any_kind);
  BOOST_TEST(kinds(R"({"$ref": "#/nowhere"})") == engine::any_kind);
  BOOST_TEST(kinds(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})") ==
             (engine::text_kind | engine::null_kind));
  BOOST_TEST(kinds(R"({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]})") == engine::text_kind);
  BOOST_TEST(kinds(R"({"type": "tuple"})") == engine::any_kind);
  BOOST_TEST(kinds("true") == engine::any_kind);
  const auto many = [&](int size) {
    boost::json::array list;
    for (int i = 0; i < size; ++i) list.emplace_back("x");
    return kinds(boost::json::serialize(boost::json::object{{"enum", std::move(list)}}).c_str());
  };
  BOOST_TEST(many(256) == engine::text_kind);
  BOOST_TEST(many(257) == engine::any_kind);
}

// A part that every property refers to is looked at again for each of them.
BOOST_AUTO_TEST_CASE(types_of_large_schemas_take_no_long_time) {
  for (const std::size_t size : {250U, 100'000U}) {
    for (const char* keyword : {"enum", "type", "anyOf", "allOf"}) {
      boost::json::array list, references;
      for (std::size_t i = 0; i < size; ++i) list.emplace_back("string");
      for (int i = 0; i < 15; ++i) references.emplace_back(boost::json::object{{"$ref", "#/$defs/large"}});
      boost::json::object properties{{"first", {{"type", "string"}}}}, large{{keyword, std::move(list)}};
      for (std::size_t i = 1; i < engine::arguments_max; ++i)
        properties["p" + std::to_string(i)] = {{"anyOf", references}};
      const boost::json::value schema{{"properties", std::move(properties)}, {"$defs", {{"large", large}}}};
      const double start = cpu_ms();
      const auto types = engine::arguments_of(schema);
      BOOST_TEST(cpu_ms() - start < 300);
      BOOST_TEST(types.size() == engine::arguments_max);
      BOOST_TEST(types.find("first")->second.is_text());
      BOOST_TEST(types.find("p511")->second.kinds == engine::any_kind);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_key_has_up_to_128_characters) {
  std::string key;
  for (int i = 0; i < 128; ++i) key += "\U00020BB7";
  const auto text = [](const std::string& name) {
    return "<tool_call><function=g><parameter=" + name + ">1</parameter></function></tool_call>";
  };
  const auto read = in_pieces(coder, known(), text(key), {});
  BOOST_TEST_REQUIRE(read.calls.size() == 1U);
  BOOST_TEST(read.calls[0].arguments == "{\"" + key + "\": 1}");
  BOOST_TEST(in_pieces(coder, known(), text(key + "x"), {}).content == text(key + "x"));
}

BOOST_AUTO_TEST_CASE(formats_are_found_from_templates) {
  const std::map<std::string, engine::output_format> formats{
      {"ByteDance-Seed-OSS", seed},
      {"GLM-4.5", pairs},
      {"GLM-4.6", pairs},
      {"GLM-4.7-Flash", pairs},
      {"google-gemma-2-2b-it", {}},
      {"google-gemma-3", {}},
      {"google-gemma-4-31B-it", gemma4},
      {"google-gemma-4-31B-it-interleaved", gemma4},
      {"ibm-granite-granite-3.3-2B-Instruct", granite},
      {"ibm-granite-granite-4.0", {call_format::hermes, false}},
      {"ibm-granite-granite-4.1", {call_format::hermes, false}},
      {"mistralai-Ministral-3-14B-Reasoning-2512", magistral},
      {"Qwen3-Coder", {call_format::qwen_coder, false}},
      {"Qwen3-Instruct-2507", {call_format::hermes, false}},
      {"Qwen3.5-4B", {call_format::qwen_coder, true}},
      {"HuggingFaceTB-SmolLM3-3B", {call_format::none, true}},
      {"own-cohere2", action},
      {"own-command-r", command},
      {"own-ernie4.5", ernie},
      {"own-exaone4", {call_format::hermes, true}},
      {"own-gemma3-tools", fenced},
      {"allenai-OLMoE-1B-7B-0125-Instruct", {}},
      {"allenai-Olmo-3-7B-Instruct", {call_format::olmo, false}},
      {"allenai-Olmo-Hybrid-Think-SFT-7B", olmo},
      {"HuggingFaceTB-SmolLM3-3B-tools", {call_format::hermes, true}},
      {"internlm-Intern-S1-mini", {call_format::internlm, true}},
      {"LFM2-8B-A1B", {call_format::lfm2, false}},
      {"LFM2.5-8B-A1B", lfm2},
      {"zai-org-GLM-4-9B-0414", glm},
      {"vllm-granite", {call_format::granite, false}},
      {"vllm-internlm2", internlm},
      {"vllm-mistral3", {call_format::mistral, false}},
  };
  for (const auto& [name, format] : formats) {
    const auto found = engine::detect_output_format(read_data("templates/" + name + ".jinja"));
    BOOST_TEST((found == format), name);
  }
}

BOOST_AUTO_TEST_CASE(a_prompt_ends_at_the_marks_of_its_own_format) {
  const engine::output_format formats[] = {olmo, seed, magistral, action, gemma4};
  for (const auto& written : formats) {
    const auto marks = engine::reasoning_marks(written);
    const std::string open = "<assistant>" + std::string(marks.open) + "\n",
                      both = open + std::string(marks.close);
    for (const auto& format : formats) {
      const bool own = format == written;
      BOOST_TEST(engine::ends_in_reasoning(open, format) == own, open);
      BOOST_TEST(engine::ends_after_reasoning(both + " \n", format) == own, both);
      BOOST_TEST(!engine::ends_in_reasoning(both, format));
      BOOST_TEST(!engine::ends_after_reasoning(open, format));
    }
    BOOST_TEST(!engine::ends_in_reasoning(open, glm));
    BOOST_TEST(!engine::ends_after_reasoning(both, glm));
  }
}

BOOST_AUTO_TEST_SUITE_END()
