#include "net/completion/chat_messages.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "net/completion/completion_request.hpp"
#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

std::string read(const std::string& messages) {
  return boost::json::serialize(test::accepted(read_messages(boost::json::parse(messages)), messages));
}

std::string refused(const std::string& messages) {
  const auto why = test::refusal(read_messages(boost::json::parse(messages)), messages);
  BOOST_TEST((why.code == engine::errc::invalid_request));
  return why.param;
}

BOOST_AUTO_TEST_SUITE(chat_messages)

BOOST_AUTO_TEST_CASE(plain_messages_stay_as_they_are) {
  const std::string plain =
      R"([{"role":"system","content":"s"},{"role":"user","content":""},{"role":"assistant","content":"a"}])";
  BOOST_TEST(read(plain) == plain);
}

BOOST_AUTO_TEST_CASE(developer_is_system) {
  BOOST_TEST(read(R"([{"role":"developer","content":"d"}])") == R"([{"role":"system","content":"d"}])");
}

BOOST_AUTO_TEST_CASE(text_parts_become_one_string) {
  BOOST_TEST(read(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])") ==
             R"([{"role":"user","content":"a\nb"}])");
}

BOOST_AUTO_TEST_CASE(arguments_of_past_tool_calls_are_objects) {
  const std::string call =
      R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"x\": [1, 2]}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"3"}])";
  BOOST_TEST(read(call) == R"([{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function",)"
                           R"("function":{"name":"f","arguments":{"x":[1,2]},)"
                           R"("orcd_sent_arguments":"{\"x\": [1, 2]}"}}]},)"
                           R"({"role":"tool","content":"3","tool_call_id":"c1"}])");
}

BOOST_AUTO_TEST_CASE(an_answer_of_the_api_can_be_sent_back) {
  BOOST_TEST(read(R"([{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null,
    "function_call":null,"tool_calls":null,"reasoning_content":"t"}])") ==
             R"([{"role":"assistant","content":"a","reasoning_content":"t","thinking":"t"}])");
}

BOOST_AUTO_TEST_CASE(no_content_is_empty_content_in_every_role) {
  for (const std::string role : {"system", "user", "assistant", "tool"}) {
    const std::string id = role == "tool" ? R"(,"tool_call_id":"c")" : "";
    for (const std::string content : {"", R"(,"content":null)", R"(,"content":"")", R"(,"content":[])"}) {
      BOOST_TEST(read(R"([{"role":")" + role + "\"" + content + id + "}]") ==
                 R"([{"role":")" + role + R"(","content":"")" + id + "}]");
    }
  }
}

std::string arguments_of(const std::string& member) {
  const auto all = boost::json::parse(
      read(R"([{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f")" + member + "}}]}]"));
  return boost::json::serialize(all.at(0).at("tool_calls").at(0).at("function").at("arguments"));
}

BOOST_AUTO_TEST_CASE(spoilt_arguments_stay_text_and_none_are_an_empty_object) {
  for (const std::string none : {R"("")", R"(" ")", "null", R"("null")", "{}", R"("{}")"}) {
    BOOST_TEST(arguments_of(",\"arguments\":" + none) == "{}", none);
  }
  BOOST_TEST(arguments_of("") == "{}");
  for (const std::string spoilt : {R"("{\"a\": \"b")", R"("no")", R"("[]")", R"("{} {}")"}) {
    BOOST_TEST(arguments_of(",\"arguments\":" + spoilt) == spoilt, spoilt);
  }
}

BOOST_AUTO_TEST_CASE(the_older_form_of_calls_is_understood) {
  BOOST_TEST(read(R"([{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
                      {"role":"function","name":"f","content":"1"}])") ==
             R"([{"role":"assistant","content":"","tool_calls":[{"id":"call_0","type":"function",)"
             R"("function":{"name":"f","arguments":{},"orcd_sent_arguments":"{}"}}]},)"
             R"({"role":"tool","content":"1","name":"f","tool_call_id":"call_0"}])");
}

BOOST_AUTO_TEST_CASE(results_without_ids_answer_the_calls_in_their_order) {
  const auto all = boost::json::parse(read(R"([{"role":"assistant","tool_calls":[
      {"id":"a","function":{"name":"f"}},{"function":{"name":"f"}},{"id":"c","function":{"name":"f"}}]},
      {"role":"tool","content":"","tool_call_id":"a"},{"role":"tool","content":""},
      {"role":"tool","content":""},{"role":"tool","content":""}])"));
  const auto id = [&](std::size_t i) { return std::string(all.at(i).at("tool_call_id").as_string()); };
  BOOST_TEST(id(2) == "call_0");
  BOOST_TEST(id(3) == "c");
  BOOST_TEST(id(4) == "call_1");  // answers nothing
}

BOOST_AUTO_TEST_CASE(what_cannot_change_an_answer_is_left_or_refused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([{"role":"user","content":"x","id":"m1"}])", "messages[0].id"},
      {R"([{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}])",
       "messages[0].content[0].cache_control"},
      {R"([{"role":"assistant","content":"x","refusal":"no","reasoning_details":[1]}])",
       "messages[0].refusal"},
      {R"([{"role":"assistant","content":"x","annotations":[{"type":"url_citation"}]}])",
       "messages[0].annotations"},
      {R"([{"role":"assistant","content":"x","tool_calls":[{"id":"1","index":0,
         "function":{"name":"f","arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].index"},
      {R"([{"role":"assistant","content":"x","tool_calls":[{"id":"1",
         "function":{"name":"f","arguments":"{}","thought_signature":"s"}}]}])",
       "messages[0].tool_calls[0].function.thought_signature"},
      {R"([{"role":"tool","tool_call_id":"1","content":"x","cache_control":{}}])",
       "messages[0].cache_control"},
  };
  for (const auto& [messages, param] : cases) {
    BOOST_TEST(read(messages).find(std::string(param).substr(std::string(param).rfind('.') + 1)) ==
               std::string::npos);
    const auto strict = read_messages(boost::json::parse(messages), true);
    BOOST_TEST_REQUIRE(!strict.has_value(), messages);
    BOOST_TEST(strict.error().param == param);
  }
}

BOOST_AUTO_TEST_CASE(reasoning_under_its_other_name) {
  BOOST_TEST(read(R"([{"role":"assistant","content":"a","reasoning":"t"}])") ==
             R"([{"role":"assistant","content":"a","reasoning_content":"t","thinking":"t"}])");
  BOOST_TEST(read(R"([{"role":"assistant","content":"a","reasoning":"u","reasoning_content":"t"}])") ==
             R"([{"role":"assistant","content":"a","reasoning_content":"t","thinking":"t"}])");
}

BOOST_AUTO_TEST_CASE(parts_that_think_are_reasoning) {
  const std::string thought =
      R"([{"role":"assistant","content":"b","reasoning_content":"t","thinking":"t"}])";
  BOOST_TEST(read(R"([{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
                      {"type":"text","text":"b"}]}])") == thought);
  BOOST_TEST(read(R"([{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},
                      {"type":"thinking","thinking":[{"type":"text","text":"t"}],"closed":true},
                      {"type":"text","text":"b"}]}])") == thought);
  BOOST_TEST(read(R"([{"role":"assistant","reasoning":"t","content":[{"type":"thinking","thinking":"u"},
                      {"type":"output_text","text":"b"}]}])") == thought);
  BOOST_TEST(read(R"([{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}])") ==
             R"([{"role":"assistant","content":"no"}])");
  BOOST_TEST(read(R"([{"role":"user","content":[{"type":"input_text","text":"a"}]}])") ==
             R"([{"role":"user","content":"a"}])");
  BOOST_TEST(refused(R"([{"role":"user","content":[{"type":"thinking","thinking":"t"}]}])") ==
             "messages[0].content[0].type");
  BOOST_TEST(refused(R"([{"role":"assistant","content":[{"type":"thinking","thinking":[1]}]}])") ==
             "messages[0].content[0].thinking[0]");
  BOOST_TEST(refused(R"([{"role":"assistant","content":[{"type":"thinking"}]}])") ==
             "messages[0].content[0].thinking");
}

BOOST_AUTO_TEST_CASE(a_picture_in_a_result_becomes_a_text_that_is_named) {
  const auto seen = boost::json::parse(R"([{"role":"tool","tool_call_id":"c","content":[
      {"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}])");
  left_names left;
  const auto taken = test::accepted(read_messages(seen, false, &left), "a picture");
  BOOST_TEST((taken[0].at("content") == "see\n[image]"));
  BOOST_TEST((left == left_names{"content=image"}));
  const auto strict = read_messages(seen, true, &left);
  BOOST_TEST_REQUIRE(!strict.has_value());
  BOOST_TEST(strict.error().param == "messages[0].content[1].type");
}

BOOST_AUTO_TEST_CASE(what_is_left_is_named_once_and_in_plain_characters) {
  left_names left;
  for (const char* name : {"a_1", "a_1", "b\r\nX: y"}) note_left(left, "tool", name);
  std::string header = "format=uri";
  append_left(header, left);
  BOOST_TEST(header == "format=uri, tool=a_1, tool=b??X??y");
  for (int i = 0; i < 20; ++i) note_left(left, "tool", std::to_string(i) + std::string(50, 'x'));
  BOOST_TEST(left.size() == 8U);
  BOOST_TEST(left.back().size() == 45U);
}

BOOST_AUTO_TEST_CASE(what_is_wrong_is_named_by_its_place) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "messages"},
      {"{}", "messages"},
      {R"("hi")", "messages"},
      {"[1]", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"([{"role":1,"content":"x"}])", "messages[0].role"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"user","content":"x"},{"role":"user","content":"x","x":1}])", "messages[1].x"},
      {R"([{"role":"user","content":"x","tool_calls":[]}])", "messages[0].tool_calls"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":[1]}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"assistant","function_call":{"name":1}}])", "messages[0].function_call.name"},
      {R"([{"role":"assistant","tool_calls":[{"id":"1","type":"x","function":{}}]}])",
       "messages[0].tool_calls[0].type"},
      {R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"arguments":"{}"}}]}])",
       "messages[0].tool_calls[0].function.name"},
  };
  for (const auto& [messages, param] : cases) BOOST_TEST(refused(messages) == param, messages);
}

BOOST_AUTO_TEST_CASE(their_number_is_bounded) {
  boost::json::array many(messages_max + 1, boost::json::object{{"role", "user"}, {"content", "x"}});
  BOOST_TEST(!read_messages(many).has_value());
  many.pop_back();
  BOOST_TEST(read_messages(many).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
