// Outputs of models parted into content, reasoning and calls: whole, in random pieces, cut off anywhere,
// damaged.
#include "engine/chat/output_parser.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "test/unit/chat/parted_output.hpp"
#include "test/unit/jinja/render_case.hpp"

using namespace orcd;
using engine::call_format;
using kind = engine::output_delta::kind;
using namespace orcd::test;

namespace {

const engine::output_format hermes{call_format::hermes, true};
const engine::output_format llama{call_format::llama3, false};
const engine::output_format mistral{call_format::mistral, false};
const engine::output_format harmony{call_format::harmony, false};

const std::vector<expectation> hermes_outputs{
    {hermes, "Hello, world.\n", {"Hello, world.\n", "", {}}},
    {hermes,
     "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [\"x\\n\", null]}}\n</tool_call>",
     {"", "", {{"f", "{\"a\": 1, \"b\": [\"x\\n\", null]}"}}}},
    {hermes,
     "<think>\nLet me see.\n\nYes.\n</think>\n\nI look.\n<tool_call>\n{\"arguments\": {}, \"name\": "
     "\"f\"}\n"
     "</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"q\": "
     "\"</tool_call>\"}}\n</tool_call>\n",
     {"I look.", "Let me see.\n\nYes.", {{"f", "{}"}, {"g", "{\"q\": \"</tool_call>\"}"}}}},
    {hermes, "I think.\n</think>\n\nDone.", {"Done.", "I think.", {}}, {true, true}},
    {hermes, "no <think>here</think>", {"no <think>here</think>", "", {}}},
    {hermes, "a < b <tool_cal", {"a < b <tool_cal", "", {}}},
    {hermes, "x <tool_call>not json</tool_call> y", {"x <tool_call>not json</tool_call> y", "", {}}},
    {hermes,
     "<tool_call>{\"tool\": \"f\"}</tool_call>",
     {"<tool_call>{\"tool\": \"f\"}</tool_call>", "", {}}},
    {hermes, "<tool_call>{\"name\": \"f\"}</tool_call> rest", {"rest", "", {{"f", "{}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     {"", "", {{"f", "{\"a\": 1}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"line\nend\"}}</tool_call>",
     {"", "", {{"f", "{\"a\": \"line\\nend\"}"}}}},
};

// Arguments stay as the model left them.
const std::vector<expectation> damaged_outputs{
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, oops}}</tool_call>z",
     {"z", "", {{"f", "{\"a\": 1, oops}}"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [tru", {"", "", {{"f", "{\"a\": [tru"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\\u00",
     {"", "", {{"f", "{\"a\": \"x\\u00"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": -", {"", "", {{"f", "{\"a\": -"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a", {"", "", {{"f", "{\"a"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_call> ok",
     {"ok", "", {{"f", "{\"a\": 1}"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>", {"", "", {{"f", "{}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}<tool_call>{\"name\": \"g\", \"arguments\": {}}",
     {"", "", {{"f", "{}"}, {"g", "{}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\"}</tool_call>",
     {"<tool_call>{\"name\": \"f\"}</tool_call>", "", {}},
     {false, false}},
    // Cut in the mark behind a call.
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n</tool", {"", "", {{"f", "{}"}}}},
    {hermes, "Hi.<tool_call>{\"name\": \"f\", \"arguments\": {}}<", {"Hi.", "", {{"f", "{}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_cal",
     {"", "", {{"f", "{\"a\": 1}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool",
     {"", "", {{"f", "{\"a\": \"</tool"}}}},
    {mistral, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL", {"", "", {{"f", "{\"a\": 1}"}}}},
    {harmony,
     "<|channel|>commentary to=functions.f<|message|>{\"a\": 1}<|cal",
     {"", "", {{"f", "{\"a\": 1}"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>a <", {"a <", "", {{"f", "{}"}}}},
};

const std::vector<expectation> llama_outputs{
    {llama, "{\"name\": \"f\", \"parameters\": {\"a\": \"b\"}}", {"", "", {{"f", "{\"a\": \"b\"}"}}}},
    {llama, "\n{\"type\": \"function\", \"function\": \"f\", \"parameters\": {}}", {"", "", {{"f", "{}"}}}},
    {llama,
     "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}",
     {"", "", {{"f", "{}"}, {"g", "{}"}}}},
    {llama, "{\"answer\": 42}", {"{\"answer\": 42}", "", {}}},
    {llama, " {not a call}", {" {not a call}", "", {}}},
    {llama,
     "Sure: {\"name\": \"f\", \"parameters\": {}}",
     {"Sure: {\"name\": \"f\", \"parameters\": {}}", "", {}}},
    {llama, "<|python_tag|>print(1)", {"<|python_tag|>print(1)", "", {}}},
    {llama, "{\"name\": \"Ann\", \"age\": 3}", {"{\"name\": \"Ann\", \"age\": 3}", "", {}}},
};

const std::vector<expectation> mistral_outputs{
    {mistral,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}, \"id\": \"abcdefghi\"}]",
     {"", "", {{"f", "{\"a\": 1}"}}}},
    {mistral,
     "Hi.\n[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {\"x\": "
     "\"]\"}}] z",
     {"Hi.z", "", {{"f", "{}"}, {"g", "{\"x\": \"]\"}"}}}},
    {mistral,
     "[TOOL_CALLS]get_it[ARGS]{\"a\": 1}[TOOL_CALLS]g{\"b\":2}",
     {"", "", {{"get_it", "{\"a\": 1}"}, {"g", "{\"b\":2}"}}}},
    {mistral, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", {"", "", {{"f", "{}"}}}},
    {mistral, "[TOOL_CALLS]no call!", {"[TOOL_CALLS]no call!", "", {}}},
    {mistral, "[TOOL_CALLS][1]", {"[TOOL_CALLS][1]", "", {}}},
    {mistral, "see [ARGS] here", {"see [ARGS] here", "", {}}},
};

const std::vector<expectation> harmony_outputs{
    {harmony,
     "<|channel|>analysis<|message|>User "
     "asks.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
     {"Hello.", "User asks.", {}}},
    {harmony,
     "<|channel|>analysis<|message|>Need it.<|end|><|start|>assistant<|channel|>commentary "
     "to=functions.get "
     "<|constrain|>json<|message|>{\"q\":\"x\"}<|call|>",
     {"", "Need it.", {{"get", "{\"q\":\"x\"}"}}}},
    {harmony, " to=functions.get<|channel|>commentary json<|message|>{}<|call|>", {"", "", {{"get", "{}"}}}},
    {harmony,
     "<|channel|>commentary<|message|>I will look.<|end|><|start|>assistant to=functions.a"
     "<|channel|>commentary<|message|>{\"k\": [1]}",
     {"I will look.", "", {{"a", "{\"k\": [1]}"}}}},
    {harmony, "<|channel|>commentary<|channel|>analysis<|message|>hm<|end|>", {"", "hm", {}}},
    {harmony, "<|channel|>final to=assistant<|message|>ok", {"ok", "", {}}},
    {harmony, "<|channel|>commentary to=functions.f<|message|>", {"", "", {{"f", "{}"}}}},
    {harmony, "Plain text.", {"Plain text.", "", {}}},
    {harmony, "<|message|>body", {"body", "", {}}},
    {harmony, "<|channel|>final", {"<|channel|>final", "", {}}},
    {harmony,
     "<|channel|>commentary to=python code<|message|>print(1)",
     {"<|channel|>commentary to=python code<|message|>print(1)", "", {}}},
    {harmony,
     "<|channel|>commentary to=functions.f<|message|>{\"a\": 1} tail<|call|>",
     {"tail", "", {{"f", "{\"a\": 1}"}}}},
    {{call_format::harmony, true}, "<think>a</think>", {"<think>a</think>", "", {}}},
    {harmony, "<|channel|>final<|message|>a<|end|> \n b", {"ab", "", {}}},
    {{call_format::none, true}, "<think>a</think>b <tool_call>", {"b <tool_call>", "a", {}}},
    {{}, "<think>a</think>[TOOL_CALLS]", {"<think>a</think>[TOOL_CALLS]", "", {}}},
};

std::vector<expectation> expectations() {
  std::vector<expectation> out;
  for (const auto* part :
       {&hermes_outputs, &damaged_outputs, &llama_outputs, &mistral_outputs, &harmony_outputs}) {
    out.insert(out.end(), part->begin(), part->end());
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(output_parsing)

BOOST_AUTO_TEST_CASE(parts_whole_outputs) {
  for (const auto& e : expectations()) {
    BOOST_TEST(in_pieces(e.format, e.options, e.text, {}) == e.expected, e.text);
  }
}

BOOST_AUTO_TEST_CASE(the_result_does_not_depend_on_the_pieces) {
  std::mt19937 random(4);
  for (const auto& e : expectations()) {
    for (int i = 0; i < 30; ++i) {
      BOOST_TEST(in_pieces(e.format, e.options, e.text, random_cuts(e.text.size(), random)) == e.expected,
                 e.text);
    }
  }
}

BOOST_AUTO_TEST_CASE(pieces_do_not_matter_for_damaged_outputs) {
  std::mt19937 random(11);
  for (const auto& e : expectations()) {
    for (int i = 0; i < 120; ++i) {
      const std::string text = damaged(e.text, random);
      const auto whole = in_pieces(e.format, e.options, text, {});
      BOOST_TEST(in_pieces(e.format, e.options, text, random_cuts(text.size(), random)) == whole, text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_mark_that_came_as_a_token_is_one_wherever_text_was_held_back) {
  engine::output_parser parser(hermes);
  parted out;
  add(out, parser.push("so <tool"));
  add(out, parser.push_mark("<tool_call>"));
  add(out, parser.push("{\"name\":\"f\",\"arguments\":{}}"));
  add(out, parser.push_mark("</tool_call>"));
  add(out, parser.finish());
  BOOST_TEST(out == (parted{"so <tool", "", {{"f", "{}"}}}));
}

BOOST_AUTO_TEST_CASE(arguments_come_as_they_are_written) {
  engine::output_parser parser(hermes);
  (void)parser.push("<tool_call>{\"name\": \"f\", \"arguments\": ");
  const auto first = parser.push("{\"text\": \"one ");
  BOOST_REQUIRE_EQUAL(first.size(), 2U);
  BOOST_TEST((first[0].what == kind::call));
  BOOST_TEST(first[0].name == "f");
  BOOST_TEST(first[1].text == "{\"text\": \"one ");
  const auto second = parser.push("two");
  BOOST_REQUIRE_EQUAL(second.size(), 1U);
  BOOST_TEST(second[0].text == "two");
}

BOOST_AUTO_TEST_CASE(formats_are_found_from_templates) {
  const auto of = [](const char* name) {
    return engine::detect_output_format(orcd::test::read_data(std::string("templates/") + name + ".jinja"));
  };
  BOOST_TEST((of("Qwen-Qwen2.5-7B-Instruct") == engine::output_format{call_format::hermes, false}));
  BOOST_TEST((of("Qwen-Qwen3-0.6B") == engine::output_format{call_format::hermes, true}));
  BOOST_TEST((of("Qwen-QwQ-32B") == engine::output_format{call_format::hermes, true}));
  BOOST_TEST((of("meta-llama-Llama-3.1-8B-Instruct") == llama));
  BOOST_TEST((of("meta-llama-Llama-3.2-3B-Instruct") == llama));
  BOOST_TEST((of("mistralai-Mistral-Nemo-Instruct-2407") == mistral));
  BOOST_TEST((of("Mistral-Small-3.2-24B-Instruct-2506") == mistral));
  BOOST_TEST((of("openai-gpt-oss-120b") == harmony));
  BOOST_TEST((of("SmolLM2") == engine::output_format{}));
  BOOST_TEST((of("Phi-3") == engine::output_format{}));
  const engine::output_format think{call_format::hermes, true};
  BOOST_TEST(engine::ends_in_reasoning("<|assistant|>\n<think>\n", think));
  BOOST_TEST(!engine::ends_in_reasoning("<think>\n\n</think>\n\n", think));
  BOOST_TEST(!engine::ends_in_reasoning("hi", think));
}

BOOST_AUTO_TEST_SUITE_END()
