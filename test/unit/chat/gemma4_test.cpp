// Gemma 4's calls, whose texts stand between marks, and its channel of thought: whole outputs, those in which
// the model slips, and what grammars let it write.
#include <string>
#include <vector>

#include "engine/chat/output_grammar.hpp"
#include "engine/grammar/matcher.hpp"
#include "test/unit/chat/frame_bench.hpp"
#include "test/unit/chat/parted_output.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::output_end;

namespace {

const engine::output_format gemma4{engine::call_format::gemma4, true, engine::reasoning_style::channel};

engine::parse_options known() {
  static const auto made = engine::argument_types::of(boost::json::parse(R"([
    {"function": {"name": "weather", "parameters": {"properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}}}}},
    {"function": {"name": "now"}}])")
                                                          .as_array());
  return {true, false, made};
}
engine::parse_options in_thought() {
  auto out = known();
  out.in_reasoning = true;
  return out;
}
engine::parse_options exact() {
  auto out = known();
  out.lenient = false;
  return out;
}

std::string q(std::string_view text) {
  return "<|\"|>" + std::string(text) + "<|\"|>";
}
std::string call_of(std::string_view name, std::string_view arguments) {
  return "<|tool_call>call:" + std::string(name) + "{" + std::string(arguments) + "}<tool_call|>";
}
parted calls(std::vector<call> all) {
  return {"", "", std::move(all)};
}
parted weather(const std::string& arguments) {
  return calls({{"weather", arguments}});
}

const std::string oslo = call_of("weather", "city:" + q("Oslo"));
const parted oslo_weather = weather(R"({"city": "Oslo"})");

std::vector<expectation> calls_and_values() {
  return {
      {gemma4, call_of("weather", "city:" + q("text") + ",days:3,o:{U:" + q("C") + "},l:[1,true,null]"),
       weather(R"({"city": "text", "days": 3, "o": {"U": "C"}, "l": [1, true, null]})"), known()},
      {gemma4, oslo + call_of("now", ""), calls({{"weather", R"({"city": "Oslo"})"}, {"now", "{}"}}),
       known()},
      {gemma4, "I look.\n" + oslo, {"I look.", "", {{"weather", R"({"city": "Oslo"})"}}}, known()},
      // Nothing but the mark ends a text, and nothing in it is an escape.
      {gemma4, call_of("weather", "city:" + q(R"(say "hi", {a:1}] \n 'x' <|" <tool_call|> <|tool_call>)")),
       weather(R"({"city": "say \"hi\", {a:1}] \\n 'x' <|\" <tool_call|> <|tool_call>"})"), known()},
      {gemma4, call_of("weather", "city:" + q("a\nb\tc\x01 \u65E5<<|")),
       weather("{\"city\": \"a\\nb\\tc\\u0001 \u65E5<<|\"}"), known()},
      {gemma4, call_of("weather", "city:" + q("")), weather(R"({"city": ""})"), known()},
      {gemma4, call_of("x.y-z:1", "a-b c:-1.50e+3,d:[[],{}," + q("s") + "]"),
       calls({{"x.y-z:1", R"({"a-b c": -1.50e+3, "d": [[], {}, "s"]})"}})},
      // Spaces, names between marks as templates write them, Python's constants, JSON's own strings.
      {gemma4, "<|tool_call> call:weather { city : " + q("Oslo") + " , days : 3 , } <tool_call|>",
       weather(R"({"city": "Oslo", "days": 3})"), known()},
      {gemma4, call_of("weather", q("city") + ":" + q("Oslo") + ",days:None,x:[True, False,]"),
       weather(R"({"city": "Oslo", "days": null, "x": [true, false]})"), known()},
      {gemma4, call_of("weather", R"("city":"Os\"lo","l":["a","b"])"),
       weather(R"({"city": "Os\"lo", "l": ["a", "b"]})"), known()},
      {gemma4, "<|tool_call>weather{city:" + q("Oslo") + "}<tool_call|>", oslo_weather, known()},
      {gemma4, "<|tool_call><|tool_call>call: weather{city:" + q("Oslo") + "}}<tool_call|>", oslo_weather,
       known()},
      // The mark behind it is missing, or the result is invented.
      {gemma4, "<|tool_call>call:weather{city:" + q("Oslo") + "}", oslo_weather, known()},
      {gemma4, oslo + "<|tool_response>response:weather{value:" + q("cold") + "}<tool_response|>It is cold.",
       oslo_weather, known()},
  };
}

std::vector<expectation> no_whole_calls() {
  const auto text = [](const std::string& all) { return parted{all, "", {}}; };
  return {
      {gemma4, "<|tool_call>none<tool_call|>", text("<|tool_call>none<tool_call|>"), known()},
      {gemma4, "<|tool_call>call:{}<tool_call|>", text("<|tool_call>call:{}<tool_call|>"), known()},
      {gemma4, "Say " + q("x") + " <tool_call|>", text("Say " + q("x") + " <tool_call|>"), known()},
      {gemma4, oslo, text(oslo), {false, false}},
      // What was begun is handed out, and is no JSON.
      {gemma4, "<|tool_call>call:weather{city:" + q("Oslo"), weather(R"({"city": "Oslo")"), known()},
      {gemma4, "<|tool_call>call:weather{city:" + q("Oslo") + "<tool_call|>", weather(R"({"city": "Oslo")"),
       known()},
      {gemma4, "<|tool_call>call:weather{city:<|\"|>Oslo}<tool_call|>",
       weather(R"({"city": "Oslo}<tool_call|>)"), known()},
      {gemma4, call_of("weather", "city:Oslo"), weather(R"({"city": Oslo})"), known()},
      {gemma4, call_of("weather", "days:01"), weather(R"({"days": 01})"), known()},
      {gemma4, "<|tool_call>call:weather{days:12<tool_call|>", weather(R"({"days": 12)"), known()},
  };
}

std::vector<expectation> thoughts() {
  const std::string thought = "<|channel>thought\nI look it up.\n<channel|>";
  const parted both{"So.", "I look it up.", {}};
  return {
      {gemma4, thought + "So.", both, known()},
      {gemma4, thought + oslo, {"", "I look it up.", {{"weather", R"({"city": "Oslo"})"}}}, known()},
      {gemma4, "<|channel>thought\n<channel|>So.", {"So.", "", {}}, known()},
      {gemma4, "<|channel>thought<channel|>So.", {"So.", "", {}}, known()},
      {gemma4, "<|channel>thoughtful<channel|>So.", {"So.", "thoughtful", {}}, known()},
      {gemma4, "<|channel>though<channel|>So.", {"So.", "though", {}}, known()},
      {gemma4, "<|channel>Hm.<channel|>So.", {"So.", "Hm.", {}}, known()},
      {gemma4, "<|channel>thought\nthought\nagain<channel|>So.", {"So.", "thought\nagain", {}}, known()},
      // The mark twice, one too many, a thought behind the answer.
      {gemma4, "<|channel><|channel>thought\nI look it up.\n<channel|>So.", both, known()},
      {gemma4, "<|channel>\n<|channel>thought\nI look it up.<channel|>So.", both, known()},
      {gemma4, thought + "<channel|>\nSo.<channel|>", both, known()},
      {gemma4, "<channel|>So.", {"So.", "", {}}, known()},
      {gemma4, "So.\n<|channel>thought\n<channel|>", {"So.", "", {}}, known()},
      {gemma4,
       "So.<|channel>thought\nHm.<channel|>" + oslo,
       {"So.", "Hm.", {{"weather", R"({"city": "Oslo"})"}}},
       known()},
      {gemma4, oslo + "<|channel>thought\n<channel|>", oslo_weather, known()},
      // The prompt ends within it, with its label or without.
      {gemma4, "I look it up.\n<channel|>So.", both, in_thought()},
      {gemma4, "thought\nI look it up.\n<channel|>So.", both, in_thought()},
      {gemma4, "<|channel>thought\nI look it up.\n<channel|>So.", both, in_thought()},
      {gemma4, "I look it up.", {"", "I look it up.", {}}, in_thought()},
      {gemma4,
       "I look it up.\n" + oslo,
       {"", "I look it up.", {{"weather", R"({"city": "Oslo"})"}}},
       in_thought()},
      {gemma4, "No " + oslo + "!<channel|>So.", {"So.", "No " + oslo + "!", {}}, in_thought()},
      // Where a grammar promises an answer, its texts may hold the marks.
      {gemma4,
       thought + R"({"a": "<|channel>thought <channel|>"})",
       {R"({"a": "<|channel>thought <channel|>"})", "I look it up.", {}},
       exact()},
  };
}

std::vector<expectation> all_outputs() {
  auto out = calls_and_values();
  for (const auto& more : {no_whole_calls(), thoughts()}) out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// Whether the output is one that a demanded call of `f` may be.
bool passes(const boost::json::value& schema, const std::string& arguments, bool tokens = false,
            bool strict = false) {
  const engine::output_frame frame{{engine::call_format::gemma4, false}, false, true};
  const frame_bench bench(frame, tokens);
  const std::vector<engine::callable> tools{{"f", &schema, strict}};
  const auto program = engine::make_call_grammar(frame, {tools, false}, *bench.table);
  BOOST_REQUIRE_MESSAGE(program.has_value(), (program ? "" : program.error().message));
  engine::grammar::matcher m(*program, bench.table);
  const std::string mark = tokens ? "\xFF" : "";
  const bool passed = m.accept_text(mark + "<|tool_call>call:f" + arguments + mark + "<tool_call|>");
  return passed && m.may_end();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gemma4_outputs)

BOOST_AUTO_TEST_CASE(whole_outputs_in_any_pieces) {
  std::mt19937 random(4);
  for (const auto& e : all_outputs()) {
    BOOST_TEST(in_pieces(e.format, e.options, e.text, {}) == e.expected, e.text);
    for (std::size_t at = 1; at < e.text.size(); ++at)
      BOOST_TEST(in_pieces(e.format, e.options, e.text, {at}) == e.expected, e.text);
    BOOST_TEST(in_pieces(e.format, e.options, e.text, every_byte(e.text.size())) == e.expected, e.text);
    BOOST_TEST(in_tokens(e.format, e.options, e.text) == e.expected, e.text);
    for (int i = 0; i < 200; ++i) {
      const std::string text = damaged(e.text, random);
      const auto whole = in_pieces(e.format, e.options, text, {});
      BOOST_TEST(in_pieces(e.format, e.options, text, random_cuts(text.size(), random)) == whole, text);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_call_that_was_not_ended_is_no_json) {
  for (const auto& e : no_whole_calls()) {
    for (const auto& one : in_pieces(e.format, e.options, e.text, {}).calls)
      BOOST_TEST(!is_object(one.arguments), one.arguments);
  }
  // Not even within a label, a mark, a name.
  const auto cut = [](std::string_view text) {
    return in_pieces(gemma4, known(), text, {}, output_end::cut);
  };
  for (const std::string_view text :
       {"<|chan", "<|channel>", "<|channel><|chan", "<|channel>thou", "<|channel>thought", "<|tool_call>",
        "<|tool_call>call:wea", "<|tool_call>call:weather"}) {
    BOOST_TEST(cut(text) == parted{}, text);
  }
  BOOST_TEST(cut("<|tool_call>call:weather{ci") == weather("{"));
  BOOST_TEST(cut("<|tool_call>call:weather{city:<|\"|>Os<|\"") == weather(R"({"city": "Os)"));
}

BOOST_AUTO_TEST_CASE(a_prompt_may_end_within_a_thought) {
  const std::string open =
      "<|tool_response>response:f{value:<|\"|>x<|\"|>}<tool_response|><|channel>thought\n";
  BOOST_TEST(engine::ends_in_reasoning(open, gemma4));
  BOOST_TEST(engine::ends_in_reasoning("<|turn>model\n<|channel>", gemma4));
  BOOST_TEST(!engine::ends_in_reasoning("<|turn>model\n", gemma4));
  BOOST_TEST(!engine::ends_in_reasoning("a thought\n", gemma4));
  BOOST_TEST(!engine::ends_in_reasoning(open + "<channel|>", gemma4));
  BOOST_TEST(engine::ends_after_reasoning(open + "<channel|>", gemma4));
  BOOST_TEST(!engine::ends_after_reasoning(open, gemma4));
}

BOOST_AUTO_TEST_CASE(arguments_follow_their_schema_at_every_depth) {
  const auto schema = boost::json::parse(R"({"type": "object", "properties": {
    "s": {"type": "string", "maxLength": 9}, "n": {"type": "integer", "minimum": 1, "maximum": 9},
    "e": {"enum": ["x", "say \"y\"", {"k": [1, "z"]}, "<|\"|>"]},
    "p": {"type": "string", "pattern": "^[A-Z]{2}$"},
    "o": {"type": "object", "properties": {"a: b": {"type": "string"}, "c d": {"$ref": "#/$defs/list"}},
          "required": ["a: b"], "additionalProperties": false}},
    "required": ["s"], "$defs": {"list": {"type": "array", "items": {"type": ["string", "null"]}}}})");
  for (const bool tokens : {true, false}) {
    const std::string mark = tokens ? "\xFF<|\"|>" : "<|\"|>";
    const auto text = [&](const std::string& held) { return mark + held + mark; };
    const auto good = [&](const std::string& arguments) { return passes(schema, arguments, tokens); };
    const std::string s = "s:" + text("a");
    BOOST_TEST(good("{" + s + "}"));
    BOOST_TEST(!good("{}"));
    BOOST_TEST(!good("{\"s\":" + text("a") + "}"));
    BOOST_TEST(!good("{s:\"a\"}"));
    BOOST_TEST(!good("{ " + s + "}"));
    BOOST_TEST(good("{s:" + text("\"}],\\n\n") + "}"));
    BOOST_TEST(good("{s:" + text("<|\"<|\"|") + "}"));
    BOOST_TEST(!good("{s:" + text("a<|\"|>b") + "}"));
    BOOST_TEST(!good("{s:" + text("0123456789") + "}"));
    BOOST_TEST(good("{" + s + ",n:9}"));
    BOOST_TEST(!good("{" + s + ",n:10}"));
    BOOST_TEST(good("{" + s + ",e:" + text("say \"y\"") + "}"));
    BOOST_TEST(good("{" + s + ",e:{k:[1," + text("z") + "]}}"));
    BOOST_TEST(!good("{" + s + ",e:" + text("<|\"|>") + "}"));
    BOOST_TEST(good("{" + s + ",p:" + text("AB") + "}"));
    BOOST_TEST(!good("{" + s + ",p:" + text("ABC") + "}"));
    // A name that would not be read as one stands between marks.
    BOOST_TEST(good("{" + s + ",o:{" + text("a: b") + ":" + text("") + ",c d:[" + text("x") + ",null]}}"));
    BOOST_TEST(!good("{" + s + ",o:{a: b:" + text("") + "}}"));
    BOOST_TEST(!good("{" + s + ",o:{" + text("a: b") + ":" + text("") + ",c d:[1]}}"));
  }
}

BOOST_AUTO_TEST_CASE(names_that_no_schema_gives_are_bare) {
  const auto open = boost::json::parse(R"({"type": "object", "properties": {"n": {"type": "integer"}},
    "patternProperties": {"^x_": {"type": "string"}}, "additionalProperties": true})");
  BOOST_TEST(passes(open, "{n:1,other name:[1,{a-b:null}],\u65E5:<|\"|>t<|\"|>}"));
  BOOST_TEST(passes(open, "{x_a:<|\"|>t<|\"|>}"));
  BOOST_TEST(!passes(open, "{x_a:1}"));
  BOOST_TEST(!passes(open, "{n:<|\"|>t<|\"|>}"));
  BOOST_TEST(!passes(open, "{ a:1}"));
  BOOST_TEST(!passes(open, "{a :1}"));
  BOOST_TEST(!passes(open, "{a{:1}"));
  const auto any = boost::json::parse("{}");
  BOOST_TEST(passes(any, "{}"));
  BOOST_TEST(passes(any, "{a:<|\"|>x<|\"|>,b:{c:[true,-1.5e3]}}"));
  BOOST_TEST(!passes(any, "[1]"));
  const auto names = boost::json::parse(
      R"({"type": "object", "propertyNames": {"pattern": "^[ab]+$"},
    "additionalProperties": {"type": "integer"}})");
  BOOST_TEST(passes(names, "{<|\"|>ab<|\"|>:1}"));
  BOOST_TEST(!passes(names, "{<|\"|>c<|\"|>:1}"));
}

BOOST_AUTO_TEST_CASE(what_is_no_object_of_arguments_is_refused) {
  const engine::output_frame frame{{engine::call_format::gemma4, false}, false, true};
  const frame_bench bench(frame, true);
  const auto refusal = [&](const char* text, bool strict) {
    const auto schema = boost::json::parse(text);
    const std::vector<engine::callable> tools{{"f", &schema, strict}};
    const auto made = engine::make_call_grammar(frame, {tools, false}, *bench.table);
    return made ? std::string() : made.error().message;
  };
  BOOST_TEST(refusal(R"({"type": "array"})", false).starts_with("tool \"f\": #/type: "));
  BOOST_TEST(refusal(R"({"type": "object", "properties": {"a": {}}, "required": []})", true) != "");
  BOOST_TEST(refusal(R"({"type": "object", "properties": {"a": {"type": "string"}}})", true) == "");
}

// No mark of reasoning has to come before an answer is held to its schema, and one may.
BOOST_AUTO_TEST_CASE(an_answer_is_structured_with_a_thought_and_without) {
  const auto allowed = [](bool may_reason, bool in_reasoning, const std::string& text) {
    const engine::output_frame frame{gemma4, in_reasoning, may_reason};
    const frame_bench bench(frame, true);
    const auto schema = boost::json::parse(R"({"type": "object", "properties": {"a": {"type": "integer"}},
      "required": ["a"]})");
    const auto program = engine::make_response_grammar(frame, &schema, {}, *bench.table);
    BOOST_REQUIRE(program.has_value());
    engine::grammar::matcher m(*program, bench.table);
    return m.accept_text(text) && m.may_end();
  };
  const std::string thought = "\xFF<|channel>thought\nHm.\xFF<channel|>";
  BOOST_TEST(allowed(true, false, R"({"a": 1})"));
  BOOST_TEST(allowed(true, false, thought + R"({"a": 1})"));
  BOOST_TEST(allowed(false, false, R"({"a": 1})"));
  BOOST_TEST(!allowed(false, false, thought + R"({"a": 1})"));
  BOOST_TEST(allowed(true, true, "Hm.\xFF<channel|>{\"a\": 1}"));
  BOOST_TEST(!allowed(true, false, "So: {\"a\": 1}"));
  BOOST_TEST(!allowed(true, false, thought + "So."));
}

BOOST_AUTO_TEST_SUITE_END()
