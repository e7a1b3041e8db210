#include "net/chat_messages.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "net/completion_request.hpp"

namespace orcd::net {
namespace {

std::string read(const std::string& messages) {
  const auto out = read_messages(boost::json::parse(messages));
  BOOST_TEST_REQUIRE(out.has_value(), messages << ": " << (out ? "" : out.error().message));
  return boost::json::serialize(*out);
}

std::string refused(const std::string& messages) {
  const auto out = read_messages(boost::json::parse(messages));
  BOOST_TEST_REQUIRE(!out.has_value(), messages << " was accepted");
  BOOST_TEST((out.error().code == engine::errc::invalid_request));
  return out.error().param;
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
  BOOST_TEST(read(call) ==
             R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
             R"("function":{"name":"f","arguments":{"x":[1,2]}}}]},)"
             R"({"role":"tool","content":"3","tool_call_id":"c1"}])");
}

BOOST_AUTO_TEST_CASE(an_answer_of_the_api_can_be_sent_back) {
  BOOST_TEST(read(R"([{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null,
    "function_call":null,"tool_calls":null,"reasoning_content":"t"}])") ==
             R"([{"role":"assistant","content":"a","reasoning_content":"t","thinking":"t"}])");
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
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":5}])", "messages[0].content"},
      {R"([{"role":"assistant"}])", "messages[0].content"},
      {R"([{"role":"assistant","tool_calls":[]}])", "messages[0].content"},
      {R"([{"role":"user","content":"x"},{"role":"user","content":"x","x":1}])", "messages[1].x"},
      {R"([{"role":"user","content":"x","tool_calls":[]}])", "messages[0].tool_calls"},
      {R"([{"role":"tool","content":"x"}])", "messages[0].tool_call_id"},
      {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0]"},
      {R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"no"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
      {R"([{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"[]"}}]}])",
       "messages[0].tool_calls[0].function.arguments"},
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
