#include "net/responses/offered_tools.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

response_tools tools_of(std::string_view text) {
  return test::accepted(read_response_tools(json::parse({text.data(), text.size()})), text);
}

std::string refused(std::string_view text) {
  return test::refusal(read_response_tools(json::parse({text.data(), text.size()})), text).param;
}

BOOST_AUTO_TEST_SUITE(offered_tools)

BOOST_AUTO_TEST_CASE(a_function_is_flat_here_and_nested_in_a_chat) {
  const auto tools = tools_of(R"([{"type":"function","name":"f","description":"d","strict":true,
                                   "parameters":{"type":"object"}},
                                  {"type":"function","name":"g","strict":null,"parameters":null}])");
  BOOST_TEST(json::serialize(tools.functions) ==
             R"([{"type":"function","function":{"description":"d","parameters":{"type":"object"},)"
             R"("strict":true,"name":"f"}},{"type":"function","function":{"name":"g"}}])");
  BOOST_TEST(tools.told.size() == 2U);
  BOOST_TEST(!tools.names.at("f").custom);
}

BOOST_AUTO_TEST_CASE(a_custom_tool_is_a_function_of_one_text) {
  const auto tools = tools_of(R"([{"type":"custom","name":"patch","description":"d",
      "format":{"type":"grammar","syntax":"lark","definition":"start: x"}}])");
  const auto& function = tools.functions.at(0).at("function");
  BOOST_TEST(json::serialize(function.at("parameters").at("required")) == R"(["input"])");
  BOOST_TEST(function.at("description").as_string() == "d\n\nThe input has this form (lark):\nstart: x");
  BOOST_TEST(tools.names.at("patch").custom);
}

BOOST_AUTO_TEST_CASE(a_namespace_is_in_the_names_of_its_functions) {
  const auto tools = tools_of(R"([{"type":"web_search"},
      {"type":"namespace","name":"mcp__files__","tools":[{"type":"function","name":"read"}]},
      {"type":"namespace","name":"n","tools":[{"type":"tool_search"},{"type":"function","name":"read"}]}])");
  BOOST_TEST(json::serialize(tools.functions) ==
             R"([{"type":"function","function":{"name":"mcp__files__read"}},)"
             R"({"type":"function","function":{"name":"n__read"}}])");
  BOOST_TEST(tools.paths.at(1) == "tools[2].tools[1]");
  BOOST_TEST(tools.names.at("n__read").space == "n");
  BOOST_TEST(tools.names.at("n__read").name == "read");
}

BOOST_AUTO_TEST_CASE(tools_that_no_model_here_can_call_are_left_out) {
  const auto tools = tools_of(R"([{"type":"web_search","external_web_access":false},{"type":"local_shell"},
      {"type":"function","name":"f"},{"type":"image_generation","output_format":"png"},{"type":"shell"},
      {"type":"tool_search","execution":"client"},{"type":"apply_patch"}])");
  BOOST_TEST(json::serialize(tools.told) == R"([{"type":"function","name":"f"}])");
}

BOOST_AUTO_TEST_CASE(what_is_left_out_is_known_by_its_type) {
  const auto tools = tools_of(R"([{"type":"web_search"},{"type":"function","name":"f"}])");
  BOOST_TEST(tools.left_types == std::vector<std::string>{"web_search"}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(refusals_name_the_place) {
  BOOST_TEST(refused("{}") == "tools");
  BOOST_TEST(refused("[7]") == "tools[0]");
  BOOST_TEST(refused("[{}]") == "tools[0].type");
  BOOST_TEST(refused(R"([{"type":"file_search"}])") == "tools[0].type");
  BOOST_TEST(refused(R"([{"type":"mcp","server_label":"x"}])") == "tools[0].type");
  BOOST_TEST(refused(R"([{"type":"function","function":{"name":"f"}}])") == "tools[0].function");
  BOOST_TEST(refused(R"([{"type":"function"}])") == "tools[0].name");
  BOOST_TEST(refused(R"([{"type":"function","name":"f","parameters":[]}])") == "tools[0].parameters");
  BOOST_TEST(refused(R"([{"type":"function","name":"f","strict":"yes"}])") == "tools[0].strict");
  BOOST_TEST(refused(R"([{"type":"custom","name":"f","format":{"type":"xml"}}])") == "tools[0].format.type");
  BOOST_TEST(refused(R"([{"type":"namespace","name":"n"}])") == "tools[0].tools");
  BOOST_TEST(refused(R"([{"type":"namespace","name":"n","tools":[{"type":"namespace"}]}])") ==
             "tools[0].tools[0].type");
}

BOOST_AUTO_TEST_CASE(choices) {
  constexpr std::string_view three = R"([{"type":"function","name":"f"},{"type":"custom","name":"g"},
      {"type":"namespace","name":"n","tools":[{"type":"function","name":"h"}]}])";
  const auto chosen = [&](std::string_view choice, std::size_t left = 3) {
    auto tools = tools_of(three);
    const auto read = read_response_choice(json::parse({choice.data(), choice.size()}), tools);
    if (!read) return read.error().param;
    BOOST_TEST(tools.functions.size() == left, choice);
    BOOST_TEST(tools.told.size() == 3U);
    return json::serialize(*read);
  };
  BOOST_TEST(chosen("\"required\"") == "\"required\"");
  BOOST_TEST(chosen(R"({"type":"function","name":"f"})") == R"({"type":"function","function":{"name":"f"}})");
  BOOST_TEST(chosen(R"({"type":"custom","name":"g"})") == R"({"type":"function","function":{"name":"g"}})");
  BOOST_TEST(chosen(R"({"type":"function","name":"h","namespace":"n"})") ==
             R"({"type":"function","function":{"name":"n__h"}})");
  BOOST_TEST(chosen(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"},
                       {"type":"web_search"},{"type":"custom","name":"g"}]})",
                    2) == "\"auto\"");
  BOOST_TEST(chosen("7") == "tool_choice");
  BOOST_TEST(chosen(R"({"type":"web_search"})") == "tool_choice.type");
  BOOST_TEST(chosen(R"({"type":"function"})") == "tool_choice.name");
  BOOST_TEST(chosen(R"({"type":"allowed_tools","mode":"none","tools":[]})") == "tool_choice.mode");
  BOOST_TEST(chosen(R"({"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"x"}]})") ==
             "tool_choice.tools[0]");
}

BOOST_AUTO_TEST_CASE(the_text_of_a_custom_call) {
  BOOST_TEST(custom_input(custom_arguments("a\n\"b\"")) == "a\n\"b\"");
  BOOST_TEST(custom_input(R"({"patch":"x"})") == R"({"patch":"x"})");
  BOOST_TEST(custom_input("no object") == "no object");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
