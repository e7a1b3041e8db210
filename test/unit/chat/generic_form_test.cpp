// The generic form of tool calls: what the grammar allows is read as calls or as an answer, in any pieces.
#include <boost/json.hpp>
#include <random>
#include <set>
#include <string>

#include "engine/chat/argument_types.hpp"
#include "test/unit/chat/frame_bench.hpp"
#include "test/unit/chat/parted_output.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

const engine::output_format generic{call_format::generic, true};
const engine::output_frame free_frame{generic, false, true};

std::shared_ptr<const engine::argument_types> functions() {
  static const auto made = engine::argument_types::of(
      boost::json::parse(R"([{"function": {"name": "f"}}, {"function": {"name": "g"}}])").as_array());
  return made;
}

struct reading {
  std::string text;
  parted expected;
  bool in_answer = false;
  bool json_answer = false;
};

std::vector<reading> readings() {
  return {
      {R"({"response": "hi"})", {"hi", "", {}}},
      {"{ \"response\" :\n\"  a\\tb \" }\n", {"  a\tb ", "", {}}},
      {R"({"response": "\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00"})",
       {"\"\\/\b\f\n\r\t\u00e9\u20ac\U0001F600", "", {}}},
      // Halves of pairs, and what is no escape.
      {R"({"response": "\ud83d \ude00\ud83dx\ud83d\u0041\ud83d\n\q\u12g"})",
       {"\uFFFD \uFFFD\uFFFDx\uFFFD"
        "A\uFFFD\n\\q\\u12g",
        "",
        {}}},
      {R"({"response": {"a": [1, "\n"]}})", {R"({"a": [1, "\n"]})", "", {}}},
      {R"({"response": 12})", {"12", "", {}}},
      {R"({"response": "a\n"})", {R"("a\n")", "", {}}, false, true},
      {R"(and \"so\" on"})", {"and \"so\" on", "", {}}, true},
      {R"({"tool_calls": [{"name": "f", "arguments": {"a":  1.0}}, {"name": "g", "arguments": {}}]})",
       {"", "", {{"f", R"({"a":  1.0})"}, {"g", "{}"}}}},
      {R"({"tool_call": {"arguments": {"a": 1}, "name": "f"}})", {"", "", {{"f", R"({"a": 1})"}}}},
      {R"({"response": "I look.", "tool_calls": [{"name": "f", "arguments": {}}]})",
       {"I look.", "", {{"f", "{}"}}}},
      {"<think>\nhm\n</think>\n\n{\"response\": \"hi\"}", {"hi", "hm", {}}},
      {"<think>hm</think>{\"tool_call\": {\"name\": \"f\", \"arguments\": {}}}", {"", "hm", {{"f", "{}"}}}},
      // What is not of the form is content.
      {"Hello {\"response\": 1}", {"Hello {\"response\": 1}", "", {}}},
      {"{}", {"{}", "", {}}},
      {R"({"answer": "hi"})", {R"({"answer": "hi"})", "", {}}},
      {R"({"tool_calls": "f"})", {R"({"tool_calls": "f"})", "", {}}},
      {R"({"tool_calls": []})", {R"({"tool_calls": []})", "", {}}},
      {R"({"tool_call": {"name": "unknown", "arguments": {}}})",
       {R"({"tool_call": {"name": "unknown", "arguments": {}}})", "", {}}},
      {R"({"response": "hi"} more)", {"himore", "", {}}},
      // What the model spoilt is no JSON afterwards.
      {R"({"tool_call": {"name": "f", "arguments": {"a": oops}}})", {"", "", {{"f", R"({"a": oops}}})"}}}},
  };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(generic_form)

BOOST_AUTO_TEST_CASE(outputs_are_read_in_any_pieces) {
  std::mt19937 random(3);
  for (const auto& [text, expected, in_answer, json_answer] : readings()) {
    engine::parse_options options{true, false, functions(), false};
    options.in_answer = in_answer;
    options.json_answer = json_answer;
    const auto whole = in_pieces(generic, options, text, {});
    BOOST_TEST(whole == expected, text << ": " << whole);
    BOOST_TEST(in_pieces(generic, options, text, every_byte(text.size())) == expected, text);
    for (int i = 0; i < 5; ++i)
      BOOST_TEST(in_pieces(generic, options, text, random_cuts(text.size(), random)) == expected, text);
  }
}

BOOST_AUTO_TEST_CASE(without_tools_it_is_text) {
  const std::string text = R"({"response": "hi"})";
  BOOST_TEST((in_pieces(generic, {false}, text, {}) == parted{text, "", {}}));
}

BOOST_AUTO_TEST_CASE(an_output_is_a_response_or_calls) {
  const frame_bench bench(free_frame, true);
  const std::vector<engine::callable> tools{{"get_weather", &weather()}, {"stop", nullptr}};
  for (const bool parallel : {false, true}) {
    const auto program = engine::make_generic_grammar(free_frame, {tools, parallel}, *bench.table);
    BOOST_TEST_REQUIRE(program.has_value());
    std::set<std::string> seen;
    std::size_t answers = 0, most = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const std::string text = bench.generate(*program, seed);
      if (text.empty()) continue;
      const output out = read(free_frame, text, tools);
      BOOST_TEST((out.calls.empty() || out.content.empty()), text);
      answers += out.calls.empty() ? 1 : 0;
      most = std::max(most, out.calls.size());
      for (const auto& [name, arguments] : out.calls) {
        seen.insert(name);
        BOOST_TEST(
            bench.valid(name == "stop" ? boost::json::value(boost::json::object()) : weather(), arguments),
            text);
      }
    }
    BOOST_TEST((answers > 0 && seen.size() == 2));
    BOOST_TEST((parallel ? most > 1 : most == 1));
  }
}

BOOST_AUTO_TEST_CASE(each_shape_passes_as_it_is_written_and_no_other) {
  const frame_bench bench(free_frame, true);
  const std::vector<engine::callable> tools{{"f", nullptr}};
  const auto passes = [&](const std::string& text, bool parallel, bool in_answer = false) {
    engine::output_frame frame = free_frame;
    frame.in_answer = in_answer;
    engine::grammar::matcher m(*engine::make_generic_grammar(frame, {tools, parallel}, *bench.table),
                               bench.table);
    return m.accept_text(text) && m.may_end();
  };
  const std::string call = R"({"name": "f", "arguments": {"a": 1}})";
  for (const bool parallel : {false, true}) {
    BOOST_TEST(passes(R"({"response": "a \"b\" c"})", parallel));
    BOOST_TEST(passes("{\"tool_call\": " + call + "}", parallel) == !parallel);
    BOOST_TEST(passes("{\"tool_calls\": [" + call + "]}", parallel) == parallel);
    BOOST_TEST(passes("{\"tool_calls\": [" + call + ", " + call + "]}", parallel) == parallel);
    BOOST_TEST(!passes("Hello", parallel));
    BOOST_TEST(!passes(R"({"response": 1})", parallel));
    BOOST_TEST(passes(R"( and \u00e9 so on"})", parallel, true) == false);
    BOOST_TEST(passes(R"( and \n so on"})", parallel, true));
    BOOST_TEST(!passes(R"( and so on)", parallel, true));
  }
  BOOST_TEST(!passes("{\"tool_calls\": []}", true));
}

BOOST_AUTO_TEST_SUITE_END()
