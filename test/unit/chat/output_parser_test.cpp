// Outputs of models parted into content, reasoning and calls: whole, in random pieces, cut off anywhere,
// damaged.
#include "engine/chat/output_parser.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "test/unit/jinja/render_case.hpp"

using namespace orcd;
using engine::call_format;
using engine::output_delta;
using kind = engine::output_delta::kind;

namespace {

struct call {
  std::string name, arguments;
  bool operator==(const call&) const = default;
};
std::ostream& operator<<(std::ostream& out, const call& c) {
  return out << c.name << '(' << c.arguments << ')';
}

struct parted {
  std::string content, reasoning;
  std::vector<call> calls;
  bool operator==(const parted&) const = default;
};
std::ostream& operator<<(std::ostream& out, const parted& p) {
  out << "content [" << p.content << "] reasoning [" << p.reasoning << "]";
  for (const auto& c : p.calls) out << ' ' << c;
  return out;
}

void add(parted& to, const engine::output_deltas& deltas) {
  for (const auto& d : deltas) {
    switch (d.what) {
      case kind::content: to.content += d.text; break;
      case kind::reasoning: to.reasoning += d.text; break;
      case kind::call:
        BOOST_TEST(d.index == to.calls.size());
        to.calls.push_back({d.name, ""});
        break;
      case kind::arguments:
        BOOST_REQUIRE(!to.calls.empty());
        BOOST_TEST(d.index + 1 == to.calls.size());
        to.calls.back().arguments += d.text;
        break;
    }
    BOOST_TEST((d.what == kind::call || !d.text.empty()));
  }
}

void expect_valid_arguments(const parted& p, std::string_view text) {
  for (const auto& c : p.calls) {
    boost::system::error_code ec;
    const auto value = boost::json::parse(c.arguments, ec, {}, {.max_depth = 200});
    BOOST_TEST(!ec, "arguments " << c.arguments << " of " << text);
    if (!ec) BOOST_TEST(value.is_object());
    BOOST_TEST(!c.name.empty());
  }
}

parted in_pieces(const engine::output_format& format, const engine::parse_options& options,
                 std::string_view text, const std::vector<std::size_t>& cuts) {
  engine::output_parser parser(format, options);
  parted out;
  std::size_t from = 0;
  for (const std::size_t cut : cuts) {
    add(out, parser.push(text.substr(from, cut - from)));
    from = cut;
  }
  add(out, parser.push(text.substr(from)));
  add(out, parser.finish());
  BOOST_TEST(parser.calls() == out.calls.size());
  expect_valid_arguments(out, text);
  return out;
}

std::vector<std::size_t> random_cuts(std::size_t size, std::mt19937& random) {
  std::vector<std::size_t> out;
  const std::size_t stride = 1 + random() % 12;
  for (std::size_t at = random() % stride; at < size; at += 1 + random() % stride) out.push_back(at);
  return out;
}

struct expectation {
  engine::output_format format;
  std::string text;
  parted expected;
  engine::parse_options options = {};
};

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

// The call is closed, and the rest is content.
const std::vector<expectation> damaged_outputs{
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1, oops}}</tool_call>z",
     {", oops}}</tool_call>z", "", {{"f", "{\"a\": 1}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [tru",
     {"", "", {{"f", "{\"a\": [true]}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\\u00",
     {"", "", {{"f", "{\"a\": \"x\"}"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": -", {"", "", {{"f", "{\"a\": -0}"}}}},
    {hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a", {"", "", {{"f", "{\"a\":null}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}\n</tool_call> ok",
     {"ok", "", {{"f", "{\"a\": 1}"}}}},
    {hermes,
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}}</tool_call>",
     {"}</tool_call>", "", {{"f", "{}"}}}},
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
     {"", "", {{"f", "{\"a\": \"</tool\"}"}}}},
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

BOOST_AUTO_TEST_CASE(arguments_are_json_wherever_the_output_is_cut_off) {
  for (const auto& e : expectations()) {
    for (std::size_t size = 0; size < e.text.size(); ++size) {
      const auto cut = e.text.substr(0, size);
      (void)in_pieces(e.format, e.options, cut, {});
    }
  }
}

BOOST_AUTO_TEST_CASE(arguments_are_json_and_pieces_do_not_matter_for_damaged_outputs) {
  std::mt19937 random(11);
  for (const auto& e : expectations()) {
    for (int i = 0; i < 120; ++i) {
      std::string text = e.text;
      for (std::uint32_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0: text.erase(at, 1 + random() % 4); break;
          case 1: text.insert(at, 1, "{}[]\",:\\<>|0x \n"[random() % 15]); break;
          case 2: text[at] = "{}[]\",:\\<>|0x \n"[random() % 15]; break;
          default: text.insert(at, text.substr(random() % text.size(), random() % 12)); break;
        }
      }
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
  BOOST_TEST((of("Qwen3-Coder").calls == call_format::none));
  BOOST_TEST((of("Phi-3") == engine::output_format{}));
  BOOST_TEST(engine::ends_in_reasoning("<|assistant|>\n<think>\n"));
  BOOST_TEST(!engine::ends_in_reasoning("<think>\n\n</think>\n\n"));
  BOOST_TEST(!engine::ends_in_reasoning("hi"));
}

/// Wherever max_tokens cuts calls off, nothing of what they are written in is content once there is a call.
BOOST_AUTO_TEST_CASE(calls_that_are_cut_off_anywhere_leave_no_mark_in_the_content) {
  const std::string one = "{\"name\": \"f\", \"arguments\": {\"a\": [1, \"x\"]}}";
  const std::string bare = "{\"name\": \"f\", \"parameters\": {\"a\": 1}}";
  const std::string tagged = "<tool_call>\n" + one + "\n</tool_call>";
  const std::string to =
      "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>";
  const std::pair<engine::output_format, std::string> cases[] = {
      {hermes, tagged},
      {hermes, tagged + "\n" + tagged},
      {hermes, tagged + tagged + "\n"},
      {llama, bare},
      {llama, bare + "; " + bare},
      {llama, "<|python_tag|>" + bare + "<|python_tag|>" + bare},
      {mistral, "[TOOL_CALLS][" + one + "]"},
      {mistral, "[TOOL_CALLS][" + one + ", " + one + "]"},
      {mistral, "[TOOL_CALLS]f[ARGS]{\"a\": 1}"},
      {mistral, "[TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]f[CALL_ID]abcdef123[ARGS]{\"a\": 1}"},
      {harmony, to},
      {harmony, to + "<|start|>assistant" + to},
  };
  for (const auto& [format, text] : cases) {
    std::size_t most = 0;
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      const auto got = in_pieces(format, {true, false}, text.substr(0, cut), {});
      most = std::max(most, got.calls.size());
      if (!got.calls.empty()) BOOST_TEST(got.content == "", text.substr(0, cut));
    }
    const std::size_t second =
        text.find("\"f\"") == std::string::npos ? 0 : text.find("\"f\"", text.find("\"f\"") + 1);
    BOOST_TEST(most >= (second != 0 && second != std::string::npos ? 2U : 1U), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
