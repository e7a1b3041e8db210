#include "net/responses/input_items.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

std::string messages_of(std::string_view input, const json::value& instructions = nullptr) {
  return json::serialize(
      test::accepted(read_input(instructions, {}, json::parse({input.data(), input.size()})), input));
}

std::string refused(std::string_view input) {
  return test::refusal(read_input(nullptr, {}, json::parse({input.data(), input.size()})), input).param;
}

BOOST_AUTO_TEST_SUITE(input_items)

BOOST_AUTO_TEST_CASE(a_string_is_what_the_user_says) {
  BOOST_TEST(messages_of("\"hi\"") == R"([{"role":"user","content":"hi"}])");
  BOOST_TEST(messages_of("\"hi\"", "Be brief.") ==
             R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}])");
  BOOST_TEST(messages_of("\"hi\"", "") == R"([{"role":"user","content":"hi"}])");
}

BOOST_AUTO_TEST_CASE(messages_with_and_without_a_type_and_neighbours_of_one_role) {
  BOOST_TEST(messages_of(R"([{"role":"developer","content":"b"},
                             {"type":"message","role":"user","content":[{"type":"input_text","text":"c"},
                                                                        {"type":"input_text","text":"d"}]},
                             {"role":"user","content":"e"},
                             {"type":"message","id":"msg_1","status":"completed","role":"assistant","content":
                              [{"type":"output_text","text":"f","annotations":[],"logprobs":[]}]},
                             {"role":"user","content":"g"}])",
                         "a") ==
             R"([{"role":"system","content":"a\n\nb"},{"role":"user","content":"c\nd\n\ne"},)"
             R"({"role":"assistant","content":"f"},{"role":"user","content":"g"}])");
}

BOOST_AUTO_TEST_CASE(a_turn_of_the_model_is_one_message) {
  BOOST_TEST(messages_of(R"([{"role":"user","content":"a"},
      {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"r"}]},
      {"type":"message","role":"assistant","content":[{"type":"output_text","text":"t"}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"x\":1}"},
      {"type":"function_call","call_id":"c2","name":"g","namespace":"n","arguments":""},
      {"type":"function_call_output","call_id":"c1","output":"o1"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"o2"}]},
      {"type":"message","role":"assistant","content":"z"}])") ==
             R"([{"role":"user","content":"a"},{"role":"assistant","content":"t","reasoning_content":"r",)"
             R"("tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},)"
             R"({"id":"c2","type":"function","function":{"name":"n__g","arguments":""}}]},)"
             R"({"role":"tool","tool_call_id":"c1","content":"o1"},)"
             R"({"role":"tool","tool_call_id":"c2","content":"o2"},{"role":"assistant","content":"z"}])");
}

BOOST_AUTO_TEST_CASE(a_custom_call_is_a_call_with_one_text) {
  BOOST_TEST(
      messages_of(R"([{"role":"user","content":"a"},
      {"type":"custom_tool_call","call_id":"c1","name":"patch","input":"*** \"x\""},
      {"type":"custom_tool_call_output","call_id":"c1","output":"ok"}])") ==
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"c1",)"
      R"("type":"function","function":{"name":"patch","arguments":"{\"input\":\"*** \\\"x\\\"\"}"}}]},)"
      R"({"role":"tool","tool_call_id":"c1","content":"ok"}])");
}

BOOST_AUTO_TEST_CASE(reasoning_comes_back_in_each_of_its_forms) {
  const auto thought = [](const std::string& members) {
    const auto text = messages_of(R"([{"role":"user","content":"a"},{"type":"reasoning",)" + members + "}]");
    const std::string before = R"([{"role":"user","content":"a"})";
    return text == before + "]" ? "none" : text.substr(before.size() + 1);
  };
  const std::string said = R"({"role":"assistant","content":"","reasoning_content":"why\n"}])";
  BOOST_TEST(thought(R"("content":[{"type":"reasoning_text","text":"why\n"}],"summary":[])") == said);
  BOOST_TEST(thought(R"("summary":[{"type":"summary_text","text":"why\n"}])") == said);
  BOOST_TEST(thought(R"("summary":[],"content":null,"encrypted_content":")" + seal_reasoning("why\n") +
                     "\"") == said);
  // What another server has encrypted cannot be read, and neither can what was spoilt.
  BOOST_TEST(thought(R"("summary":[],"encrypted_content":"gAAAAABo")") == "none");
  BOOST_TEST(thought(R"("summary":[],"encrypted_content":"orcd1.!!!!")") == "none");
  BOOST_TEST(thought(R"("summary":[],"encrypted_content":")" + seal_reasoning("\xff") + "\"") ==
             "{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"\xef\xbf\xbd\"}]");
}

BOOST_AUTO_TEST_CASE(refusals_name_the_place) {
  BOOST_TEST(refused("7") == "input");
  BOOST_TEST(refused("[]") == "input");
  BOOST_TEST(refused("[\"a\"]") == "input[0]");
  BOOST_TEST(refused(R"([{"role":"user"}])") == "input[0].content");
  BOOST_TEST(refused(R"([{"role":"tool","content":"x"}])") == "input[0].role");
  BOOST_TEST(refused(R"([{"role":"user","content":"x","audio":1}])") == "input[0].audio");
  BOOST_TEST(refused(R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])") ==
             "input[0].content[0].type");
  BOOST_TEST(refused(R"([{"role":"user","content":[{"type":"input_text"}]}])") == "input[0].content[0].text");
  BOOST_TEST(refused(R"([{"role":"user","content":"x"},{"type":"computer_call","id":"1"}])") ==
             "input[1].type");
  BOOST_TEST(refused(R"([{"type":"item_reference","id":"msg_1"}])") == "input[0]");
  BOOST_TEST(refused(R"([{"id":"msg_1"}])") == "input[0]");
  BOOST_TEST(refused(R"([{"type":"function_call","name":"f","arguments":"{}"}])") == "input[0].call_id");
  BOOST_TEST(refused(R"([{"type":"function_call","call_id":"c","name":"f","arguments":{}}])") ==
             "input[0].arguments");
  BOOST_TEST(refused(R"([{"type":"function_call_output","call_id":"c"}])") == "input[0].output");
  BOOST_TEST(refused(R"([{"type":"web_search_call","id":"ws_1","status":"completed"}])") == "input");
  BOOST_TEST(read_input(7, {}, "x").error().param == "instructions");
}

BOOST_AUTO_TEST_CASE(a_picture_in_an_output_becomes_a_text_that_is_named) {
  const auto input = json::parse(R"([{"type":"function_call_output","call_id":"c",
      "output":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"x"}]}])");
  left_names left;
  const auto messages = test::accepted(read_input(nullptr, {}, input, &left), "a picture");
  BOOST_TEST((messages.back().at("content") == "see\n[image]"));
  BOOST_TEST((left == left_names{"content=image"}));
  BOOST_TEST(read_input(nullptr, {}, input).error().param == "input[0].output[1].type");
}

BOOST_AUTO_TEST_CASE(earlier_responses_that_are_too_long_to_be_read_again) {
  const auto going_on_from = [](std::size_t bytes) {
    kept_turn turn;
    turn.input = std::make_shared<const kept_items>();
    const std::string item = R"({"type":"web_search_call","status":"completed"})";
    turn.output = {{"ws_1", item + std::string(bytes - item.size(), ' ')}};
    return read_input(nullptr, {std::make_shared<const kept_turn>(std::move(turn))}, "hi");
  };
  BOOST_TEST(going_on_from(earlier_bytes_max).has_value());
  BOOST_TEST(test::refusal(going_on_from(earlier_bytes_max + 1), "").param == "previous_response_id");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
