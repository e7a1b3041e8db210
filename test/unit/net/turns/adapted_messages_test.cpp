// Messages in the form that a template can take: calls one by one or as text, reasoning as a part, arguments
// in their spelling; and what is given up of a conversation that a template refuses.
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/conversation/argument_text.hpp"
#include "net/completion/prepare_completion.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"
#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::json_spacing;

struct template_fixture : test::request_fixture {
  template_fixture() { lengths.context_tokens = 10'000; }
  /// The prompt that a template makes of messages, or why it does not.
  std::string prompt(std::string_view source, std::string_view messages) {
    const auto format = engine::chat_format::make(source, {}).value();
    const std::string body = R"({"messages":)" + std::string(messages) + "}";
    const auto asked = parse_completion(body, completion_kind::chat, limits());
    BOOST_TEST_REQUIRE(asked.has_value(), body);
    const auto made = render_chat(*asked, {limits(), letters, &format, {}}, true);
    return made ? made->text : "refused: " + made.error().message;
  }
  test::letter_tokenizer letters;
};

BOOST_FIXTURE_TEST_SUITE(adapted_messages, template_fixture)

BOOST_AUTO_TEST_CASE(arguments_as_models_write_them) {
  const auto value = json::parse(
      R"({"a":0.1,"b":[1,-2.0,1e22,1e-7,0.0001,1e15,true,null],"ü\n":{"c":"\"/"},"d":{},"e":[]})");
  BOOST_TEST(engine::argument_text(value, json_spacing::usual) ==
             R"({"a": 0.1, "b": [1, -2.0, 1e+22, 1e-07, 0.0001, 1000000000000000.0, true, null], )"
             R"("ü\n": {"c": "\"/"}, "d": {}, "e": []})");
  BOOST_TEST(engine::argument_text(json::parse(R"({"a": [1, 2], "b": "x, y: z"})"), json_spacing::none) ==
             R"({"a":[1,2],"b":"x, y: z"})");
  BOOST_TEST(engine::with_usual_spacing(R"({"a":[1,2],"b,\"":"x:,\\"})") ==
             R"({"a": [1, 2], "b,\"": "x:,\\"})");
  for (const std::string kept : {R"({"a" :1,"b":2})", "{\n\"a\":1}", "{}", R"({"a": 1})"}) {
    BOOST_TEST(engine::with_usual_spacing(kept) == kept);
  }
}

// Calls as JSON, results, texts; "one" refuses several calls in a message.
const std::string calls_of =
    "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}"
    "{% for c in m.tool_calls %}[{{ c.id }}:{{ c.function.arguments | tojson }}]{% endfor %}{% endif %}"
    "{{ m.content }}{% endfor %}";
const std::string one_of =
    "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}"
    "{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
    "[{{ m.tool_calls[0].id }}:{{ m.tool_calls[0].function.arguments | tojson }}]{% endif %}"
    "{{ m.content }}{% endfor %}";

std::string sent_call(const std::string& id, const std::string& arguments) {
  return R"({"id":")" + id + R"(","type":"function","function":{"name":"f","arguments":)" + arguments + "}}";
}
std::string calling_turn(const std::string& calls, const std::string& more = "") {
  return R"({"role":"assistant","content":"t","tool_calls":[)" + calls + "]" + more + "}";
}
std::string call_result(const std::string& id) {
  return R"({"role":"tool","tool_call_id":")" + id + R"(","content":"r)" + id + R"("})";
}
const std::string user_turn = R"({"role":"user","content":"u"})";

BOOST_AUTO_TEST_CASE(arguments_come_back_as_they_were_written) {
  const auto shown = [&](const std::string& arguments) {
    return prompt(calls_of, "[" + user_turn + "," + calling_turn(sent_call("1", arguments)) + "]");
  };
  BOOST_TEST(shown(R"("{\"x\": 0.10}")") == R"(<user>u<assistant>[1:{"x": 0.10}]t)");
  BOOST_TEST(shown(R"("{\"x\":0.10,\"y\":[1,2]}")") == R"(<user>u<assistant>[1:{"x": 0.10, "y": [1, 2]}]t)");
  BOOST_TEST(shown(R"({"x":0.1})") == R"(<user>u<assistant>[1:{"x": 0.1}]t)");
  BOOST_TEST(shown(R"("{\"x\": \"cu")") == R"(<user>u<assistant>[1:{"x": "cu]t)");
  BOOST_TEST(shown(R"("ls")") == R"(<user>u<assistant>[1:"ls"]t)");
  BOOST_TEST(shown(R"("")") == "<user>u<assistant>[1:{}]t");
}

BOOST_AUTO_TEST_CASE(a_template_of_one_call_gets_each_with_its_result) {
  const std::string two = calling_turn(sent_call("1", "{}") + "," + sent_call("2", R"({"x":1})"),
                                       R"(,"reasoning_content":"why")");
  const std::string messages = "[" + user_turn + "," + two + "," + call_result("2") + "," + call_result("9") +
                               "," + call_result("1") + "," + user_turn + "]";
  BOOST_TEST(prompt(one_of, messages) ==
             R"(<user>u<assistant>[1:{}]t<tool>r1<assistant>[2:{"x": 1}]<tool>r2<tool>r9<user>u)");
  BOOST_TEST(prompt(calls_of, messages) ==
             R"(<user>u<assistant>[1:{}][2:{"x": 1}]t<tool>r2<tool>r9<tool>r1<user>u)");
  BOOST_TEST(prompt(one_of, "[" + user_turn + "," + two + "]") ==
             R"(<user>u<assistant>[1:{}]t<assistant>[2:{"x": 1}])");
}

// As Gemma 4's interleaved template has it: results are a part of the message of their calls, and so is the
// answer behind them; text beside calls comes behind results.
BOOST_AUTO_TEST_CASE(results_are_put_into_the_message_of_their_calls) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{% for c in m.tool_calls or [] %}"
      "[{{ c.function.arguments | tojson }}]{% endfor %}{% for r in m.tool_responses or [] %}"
      "({{ r.name }}={{ r.response }}){% endfor %}{{ m.content }}{% endfor %}";
  const std::string two = sent_call("1", "{}") + "," + sent_call("2", R"({"x":1})");
  const std::string called =
      user_turn + "," + calling_turn(two) + "," + call_result("2") + "," + call_result("1");
  BOOST_TEST(prompt(source, "[" + called + "]") ==
             R"(<user>u<assistant>[{}][{"x": 1}](f=r2)(f=r1)<assistant>t)");
  BOOST_TEST(prompt(source, "[" + called + "," + user_turn + "]") ==
             R"(<user>u<assistant>[{}][{"x": 1}](f=r2)(f=r1)t<user>u)");
  const std::string silent = R"({"role":"assistant","content":"","tool_calls":[)" + two + "]}";
  const std::string answered = "[" + user_turn + "," + silent + "," + call_result("1") +
                               R"(,{"role":"assistant","content":"a"},)" + user_turn + "]";
  BOOST_TEST(prompt(source, answered) == R"(<user>u<assistant>[{}][{"x": 1}](f=r1)a<user>u)");
  BOOST_TEST(prompt(source, "[" + user_turn + "," + silent + "," + user_turn + "]") ==
             R"(<user>u<assistant>[{}][{"x": 1}]<user>u)");
}

BOOST_AUTO_TEST_CASE(a_template_that_shows_no_calls_gets_them_as_text) {
  const std::string source =
      "{# <|tool_call|> #}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  const std::string messages = "[" + user_turn + "," +
                               calling_turn(sent_call("1", R"("{\"x\":1}")") + "," + sent_call("2", "{}")) +
                               "," + call_result("1") + "]";
  BOOST_TEST(prompt(source, messages) ==
             "<user>u<assistant>t\n<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"x\": 1}}, "
             "{\"name\": \"f\", \"arguments\": {}}]<tool>r1");
}

BOOST_AUTO_TEST_CASE(a_template_that_refuses_to_be_asked_keeps_its_calls) {
  const std::string source =
      "{# <tool_call> #}{% if messages[0].role != 'system' %}{{ raise_exception('system') }}{% endif %}" +
      calls_of;
  const std::string system = R"({"role":"system","content":"s"},)";
  BOOST_TEST(prompt(source, "[" + system + user_turn + "," + calling_turn(sent_call("1", "{}")) + "]") ==
             "<system>s<user>u<assistant>[1:{}]t");
}

BOOST_AUTO_TEST_CASE(reasoning_is_a_part_where_a_template_shows_no_other) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}{{ '[' + p.thinking + ']' if p.type == 'thinking' else p.text }}{% endfor "
      "%}{% endif %}"
      "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
  const std::string thought = R"(,"reasoning_content":"why"})";
  BOOST_TEST(prompt(source, "[" + user_turn + R"(,{"role":"assistant","content":"t")" + thought + "]") ==
             "<user>u<assistant>[why]t");
  BOOST_TEST(prompt(source, "[" + user_turn + R"(,{"role":"assistant","content":"")" + thought + "]") ==
             "<user>u<assistant>[why]");
  BOOST_TEST(prompt(source, "[" + user_turn + R"(,{"role":"assistant","content":"t"}])") ==
             "<user>u<assistant>t");
}

// User and assistant in turns, as Mistral's templates have it: calls and results do not count.
const std::string in_turns =
    "{% set ns = namespace(n=0) %}{% for m in messages %}"
    "{% if m.role in ['user', 'assistant'] and not m.tool_calls %}"
    "{% if (m.role == 'user') != (ns.n % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}{% set ns.n = "
    "ns.n + 1 %}"
    "{% if m.content == '' %}{{ raise_exception('empty') }}{% endif %}{% endif %}"
    "<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";

BOOST_AUTO_TEST_CASE(a_conversation_that_is_not_in_turns_is_brought_into_them) {
  const std::string system = R"({"role":"system","content":"s"},)";
  const std::string nothing = R"({"role":"assistant","content":""})";
  BOOST_TEST(prompt(in_turns, "[" + system + user_turn + "," + user_turn + "]") == "<system>s<user>u\n\nu");
  BOOST_TEST(prompt(in_turns, "[" + system + user_turn + "," + nothing + "," + user_turn + "]") ==
             "<system>s<user>u<assistant> <user>u");
  BOOST_TEST(prompt(in_turns, "[" + user_turn + "," + calling_turn(sent_call("1", "{}")) + "," +
                                  call_result("1") + "," + user_turn + "]") ==
             "<user>u<assistant>t{}<tool>r1<assistant> <user>u");
  // Others are left alone.
  BOOST_TEST(prompt(calls_of, "[" + user_turn + "," + user_turn + "]") == "<user>u<user>u");
}

BOOST_AUTO_TEST_CASE(nothing_is_given_up_that_is_not_refused) {
  const std::string both =
      "{% for m in messages %}{% if m.tool_calls and m.content and m.thinking %}"
      "{{ raise_exception('both') }}{% endif %}<{{ m.role }}>{{ m.thinking }}|{{ m.content }}"
      "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}";
  const std::string messages = R"([{"role":"system","content":"s"},)" + user_turn + "," +
                               calling_turn(sent_call("1", "{}"), R"(,"reasoning_content":"why")") + "]";
  BOOST_TEST(prompt(both, messages) == "<system>|s<user>|u<assistant>why\n\nt|{}");
  BOOST_TEST(prompt("{% if messages | length > 1 %}{{ raise_exception('never') }}{% endif %}",
                    "[" + user_turn + "," + user_turn + "," + calling_turn(sent_call("1", "{}")) + "]") ==
             "refused: never");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
