// Searches against the standard library's, whose answers are right and whose time is not bounded.
#include "engine/jinja/text_search.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "engine/chat/output_format.hpp"
#include "test/unit/jinja/render_case.hpp"

using namespace orcd;
using namespace orcd::test;
namespace jinja = orcd::engine::jinja;

namespace {

/// Few letters, so that needles overlap themselves and nearly match everywhere.
std::string random_text(std::mt19937& random, std::size_t most, unsigned letters) {
  std::string out(random() % (most + 1), 'a');
  for (char& c : out) c = static_cast<char>('a' + random() % letters);
  return out;
}

/// A short text again and again, with a few letters changed.
std::string periodic_text(std::mt19937& random, std::size_t most) {
  const std::string period = random_text(random, 6, 2) + "a";
  const std::size_t size = random() % (most + 1);
  std::string out;
  while (out.size() < size) out += period;
  out.resize(size);
  for (std::size_t i = random() % 3; i > 0 && !out.empty(); --i) out[random() % out.size()] = 'b';
  return out;
}

void check_searches(std::string_view text, std::string_view what, std::size_t from) {
  jinja::work_meter meter(UINT64_MAX);
  BOOST_TEST_REQUIRE(jinja::find_text(meter, text, what, from) == text.find(what, from),
                     "find " << what << " in " << text << " from " << from);
  BOOST_TEST_REQUIRE(jinja::rfind_text(meter, text, what) == text.rfind(what),
                     "rfind " << what << " in " << text);
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t found = text.find(from); found != std::string_view::npos; found = text.find(from, at)) {
    out.append(text.substr(at, found - at)).append(to);
    at = found + from.size();
  }
  return out.append(text.substr(at));
}

std::size_t counted(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos;
       at = text.find(what, at + what.size())) {
    ++count;
  }
  return count;
}

std::string split_from_end(std::string_view text, std::string_view by) {
  std::string out;
  for (std::size_t at = text.rfind(by); at != std::string_view::npos; at = text.rfind(by)) {
    out = "," + std::string(text.substr(at + by.size())) + out;
    text = text.substr(0, at);
  }
  return std::string(text) + out;
}

std::string place(std::size_t at) {
  return at == std::string_view::npos ? "-1" : std::to_string(at);
}

/// The format of a template that mentions what `text` does, by the rules in their order.
engine::output_format format_by_rules(const std::string& text) {
  using engine::call_format;
  using engine::reasoning_style;
  const auto has = [&](std::string_view mark) { return text.find(mark) != std::string::npos; };
  engine::output_format expected;
  if (has("<|channel|>") && has("<|message|>")) {
    expected.calls = call_format::harmony;
    return expected;
  }
  const bool turns = has("<|start_header_id|>") || has("<start_of_turn>");
  const call_format tagged = has("<function=")  ? call_format::qwen_coder
                             : has("<arg_key>") ? call_format::arg_pairs
                                                : call_format::hermes;
  const std::pair<bool, call_format> choices[] = {
      {has("[TOOL_CALLS]"), call_format::mistral},
      {has("<seed:tool_call>"), call_format::seed},
      {has("<|START_ACTION|>"), call_format::action},
      {has("<|tool_call|>"), call_format::granite},
      {has("<|tool_call>"), call_format::gemma4},
      {has("<tool_call>"), tagged},
      {has("<function_calls>"), call_format::olmo},
      {has("<|action_start|>") && has("<|plugin|>"), call_format::internlm},
      {has("Action:") && has("\"tool_name\""), call_format::command_r},
      {has("```tool_code"), call_format::tool_code},
      {has("<|python_tag|>") || (turns && has("\"parameters\"")), call_format::llama3},
      {has("<|observation|>"), call_format::glm}};
  const auto chosen =
      std::find_if(std::begin(choices), std::end(choices), [](const auto& c) { return c.first; });
  if (chosen != std::end(choices)) expected.calls = chosen->second;
  expected.reasoning = has("<seed:think>")         ? reasoning_style::seed
                       : has("<|START_THINKING|>") ? reasoning_style::thinking
                       : has("[THINK]")            ? reasoning_style::brackets
                       : has("<|channel>")         ? reasoning_style::channel
                                                   : reasoning_style::think;
  expected.think = expected.reasoning != reasoning_style::think || has("<think>") || has("</think>");
  expected.answer = has("<|START_RESPONSE|>")             ? engine::answer_style::response_tokens
                    : expected.think && has("<response>") ? engine::answer_style::response
                                                          : engine::answer_style::bare;
  return expected;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(text_search)

BOOST_AUTO_TEST_CASE(empty_and_too_long_needles) {
  for (const std::string_view text : {"", "a", "ab", "aaaa"}) {
    for (const std::string_view what : {"", "a", "b", "ab", "ba", "aaaa", "aaaaa", "baaaa"}) {
      for (std::size_t from = 0; from < 7; ++from) check_searches(text, what, from);
    }
  }
}

BOOST_AUTO_TEST_CASE(random_texts_and_needles) {
  std::mt19937 random(25);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = random_text(random, 60, 1 + random() % 3);
    check_searches(text, random_text(random, 8, 1 + random() % 2), random() % 20);
    if (text.size() > 4)
      check_searches(text, text.substr(random() % text.size(), random() % 12), random() % 4);
  }
}

/// Long enough to leave the candidates behind.
BOOST_AUTO_TEST_CASE(periodic_texts_and_needles) {
  std::mt19937 random(26);
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = periodic_text(random, 1'500);
    check_searches(text, periodic_text(random, 80), random() % 100);
    std::string what = text.substr(random() % (text.size() + 1), random() % 400);
    check_searches(text, what, random() % 400);
    if (!what.empty()) what[random() % what.size()] ^= 3;  // a to b, b to a
    check_searches(text, what, 0);
    check_searches(text, random_text(random, 12, 2), 0);
  }
}

BOOST_AUTO_TEST_CASE(work_is_linear) {
  constexpr std::size_t n = 1U << 20U;
  const std::string text(n, 'a');
  const std::string half(n / 2, 'a');
  for (const std::string& what : {half + "b", "b" + half, half + "b" + half.substr(1),
                                  std::string("aaaaaaab"), std::string("baaaaaaa"), std::string("ab")}) {
    jinja::work_meter meter(UINT64_MAX);
    BOOST_TEST(jinja::find_text(meter, text, what) == std::string_view::npos);
    BOOST_TEST(jinja::rfind_text(meter, text, what) == std::string_view::npos);
    BOOST_TEST(meter.spent() < 40 * n, what.substr(0, 8) << ": " << meter.spent());
    BOOST_TEST(meter.spent() > n / 8);
  }
}

BOOST_AUTO_TEST_CASE(methods_of_templates) {
  const auto compiled = engine::chat_template::compile(
      "{{ t.find(n) }} {{ t.rfind(n) }} {{ n in t }} {{ t.count(n) }} {{ t.replace(n, '--') }} "
      "{{ t.split(n)|join(',') }} {{ t.rsplit(n)|join(',') }} {{ t.partition(n)|join(',') }} "
      "{{ t.rpartition(n)|join(',') }}");
  BOOST_REQUIRE(compiled.has_value());
  std::mt19937 random(27);
  for (int i = 0; i < 3'000; ++i) {
    const std::string text = i % 2 == 0 ? random_text(random, 40, 2) : periodic_text(random, 900);
    const std::string what = "a" + (i % 3 == 0 ? periodic_text(random, 60) : random_text(random, 4, 2));
    const std::size_t first = text.find(what);
    const std::size_t last = text.rfind(what);
    const bool there = first != std::string::npos;
    const std::string expected =
        place(first) + " " + place(last) + " " + (there ? "True " : "False ") +
        std::to_string(counted(text, what)) + " " + replaced(text, what, "--") + " " +
        replaced(text, what, ",") + " " + split_from_end(text, what) + " " +
        (there ? text.substr(0, first) + "," + what + "," + text.substr(first + what.size()) : text + ",,") +
        " " +
        (there ? text.substr(0, last) + "," + what + "," + text.substr(last + what.size()) : ",," + text);
    BOOST_TEST_REQUIRE(outcome(compiled->render({{"t", text}, {"n", what}})) == expected);
  }
}

BOOST_AUTO_TEST_CASE(sets_of_characters) {
  const auto strip = [](std::string_view text, std::string_view set) {
    return outcome(render("{{ t.strip(s) }},{{ t.lstrip(s) }},{{ t.rstrip(s) }}", {{"t", text}, {"s", set}}));
  };
  BOOST_TEST(strip("abcba", "ab") == "c,cba,abc");
  BOOST_TEST(strip("\u00E9x\u3000\u00E9", "\u3000\u00E9") == "x,x\u3000\u00E9,\u00E9x");
  BOOST_TEST(strip("aaa", "a") == ",,");
  BOOST_TEST(strip("\u00E9", "\u00E8") == "\u00E9,\u00E9,\u00E9");  // their first bytes are the same
}

/// One pass for all marks finds what a search for each would.
BOOST_AUTO_TEST_CASE(marks_of_output_formats) {
  constexpr std::string_view marks[] = {
      "<|channel|>",      "<|message|>",      "</think>",           "<think>",        "[TOOL_CALLS]",
      "<tool_call>",      "<function=",       "<arg_key>",          "<|python_tag|>", "<|start_header_id|>",
      "\"parameters\"",   "<seed:tool_call>", "<seed:think>",       "[THINK]",        "<|START_THINKING|>",
      "<|START_ACTION|>", "<response>",       "<|START_RESPONSE|>", "<|tool_call|>",  "<function_calls>",
      "<|action_start|>", "<|plugin|>",       "```tool_code",       "\"tool_name\"",  "Action:",
      "<start_of_turn>",  "<|observation|>",  "<|tool_call>",       "<|channel>"};
  std::mt19937 random(28);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (std::size_t n = random() % 6; n > 0; --n) {
      const std::string_view mark = marks[random() % std::size(marks)];
      text += random() % 3 == 0 ? mark.substr(0, random() % mark.size()) : mark;
    }
    BOOST_TEST_REQUIRE((engine::detect_output_format(text) == format_by_rules(text)), text);
  }
}

BOOST_AUTO_TEST_CASE(reasoning_at_the_end) {
  for (const auto& [prompt, expected] : {std::pair{"", false},
                                         {"<think>", true},
                                         {"a<think> \n\t\r", true},
                                         {"<think>a", false},
                                         {"<think></think>\n", false},
                                         {"<think>a<think>\n", true},
                                         {"think>", false},
                                         {" \n", false}}) {
    BOOST_TEST(engine::ends_in_reasoning(prompt, {engine::call_format::none, true}) == expected, prompt);
  }
}

BOOST_AUTO_TEST_SUITE_END()
