#include "net/completion/output_constraints.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

const std::string weather =
    R"({"type":"function","function":{"name":"weather","description":"d","strict":true,)"
    R"("parameters":{"type":"object"}}})";

engine::result<output_constraints> check(const std::string& tools, const std::string& choice = "null",
                                         const std::string& format = "null") {
  constraint_fields asked;
  asked.tools = json::parse(tools).as_array();
  asked.tool_choice = json::parse(choice);
  asked.response_format = json::parse(format);
  return check_constraints(std::move(asked));
}

std::string refused(const std::string& tools, const std::string& choice = "null",
                    const std::string& format = "null") {
  const auto why = test::refusal(check(tools, choice, format), tools + choice + format);
  BOOST_TEST((why.code == engine::errc::invalid_request));
  return why.param;
}

BOOST_AUTO_TEST_SUITE(output_constraints_checks)

BOOST_AUTO_TEST_CASE(what_each_choice_means) {
  const std::string two = "[" + weather + R"(,{"type":"function","function":{"name":"time"}}])";
  BOOST_TEST((check(two)->kind == constraint_kind::open));
  BOOST_TEST((check(R"([{"type":"function","function":{"name":"time"}}])")->kind == constraint_kind::none));
  BOOST_TEST((check(two, "\"none\"")->kind == constraint_kind::none));
  BOOST_TEST((check(two, "\"auto\"", R"({"type":"json_object"})")->kind == constraint_kind::json));
  BOOST_TEST(check(two, "\"auto\"")->tools.size() == 2U);
  BOOST_TEST(check(two, "\"none\"")->tools.empty());
  BOOST_TEST((check(two, "\"required\"")->kind == constraint_kind::calls));
  const auto named = check(two, R"({"type":"function","function":{"name":"time"}})");
  BOOST_TEST_REQUIRE(named.has_value());
  BOOST_TEST((named->kind == constraint_kind::calls));
  BOOST_TEST(named->function == "time");
  BOOST_TEST(named->tools.size() == 2U);
}

BOOST_AUTO_TEST_CASE(what_each_format_means) {
  BOOST_TEST((check("[]", "null", R"({"type":"text"})")->kind == constraint_kind::none));
  const auto object = check("[]", "null", R"({"type":"json_object"})");
  BOOST_TEST((object->kind == constraint_kind::json));
  BOOST_TEST(object->schema.is_null());
  const auto schema =
      check("[]", "null",
            R"({"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"string"}}})");
  BOOST_TEST((schema->kind == constraint_kind::json));
  BOOST_TEST(schema->strict);
  BOOST_TEST((schema->schema == json::parse(R"({"type":"string"})")));
  BOOST_TEST(
      (check("[" + weather + "]", "\"none\"", R"({"type":"json_object"})")->kind == constraint_kind::json));
}

BOOST_AUTO_TEST_CASE(tools_that_are_none) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([5])", "tools[0]"},
      {R"([{}])", "tools[0].type"},
      {R"([{"type":"web_search"}])", "tools[0].type"},
      {R"([{"type":"function"}])", "tools[0].function"},
      {R"([{"type":"function","function":5}])", "tools[0].function"},
      {R"([{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":""}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":"a b"}}])", "tools[0].function.name"},
      {R"([{"type":"function","function":{"name":"a","parameters":[]}}])", "tools[0].function.parameters"},
      {R"([{"type":"function","function":{"name":"a","description":1}}])", "tools[0].function.description"},
      {R"([{"type":"function","function":{"name":"a","strict":1}}])", "tools[0].function.strict"},
      {R"([{"type":"function","function":{"name":"a","x":1}}])", "tools[0].function.x"},
      {R"([{"type":"function","x":1,"function":{"name":"a"}}])", "tools[0].x"},
      {R"([{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}])",
       "tools[1].function.name"},
  };
  for (const auto& [tools, param] : cases) BOOST_TEST(refused(tools) == param, tools);
  std::string many = "[" + weather;
  for (int i = 0; i < 128; ++i) many += "," + weather;
  BOOST_TEST(refused(many + "]") == "tools");
}

BOOST_AUTO_TEST_CASE(choices_that_are_none) {
  const std::string tools = "[" + weather + "]";
  BOOST_TEST(refused("[]", "\"required\"") == "tool_choice");
  BOOST_TEST(refused(tools, "\"maybe\"") == "tool_choice");
  BOOST_TEST(refused(tools, "{}") == "tool_choice.type");
  BOOST_TEST(refused(tools, R"({"type":"function"})") == "tool_choice.function");
  BOOST_TEST(refused(tools, R"({"type":"function","function":{"name":"x"}})") == "tool_choice");
}

BOOST_AUTO_TEST_CASE(the_tools_that_are_allowed_are_the_only_ones) {
  const std::string tools = "[" + weather + R"(,{"type":"function","function":{"name":"time"}}])";
  const auto allowed = [](const std::string& mode, const std::string& names) {
    return R"({"type":"allowed_tools","allowed_tools":{"mode":")" + mode + R"(","tools":[)" + names + "]}}";
  };
  const std::string time = R"({"type":"function","function":{"name":"time"}})";
  const auto free = check(tools, allowed("auto", time));
  BOOST_TEST((free->kind == constraint_kind::none && free->tools.size() == 1U));
  BOOST_TEST((check(tools, allowed("required", time))->kind == constraint_kind::calls));
  BOOST_TEST(check(tools, allowed("auto", ""))->tools.empty());
  BOOST_TEST(refused(tools, allowed("required", "")) == "tool_choice");
  const std::string place = "tool_choice.allowed_tools";
  BOOST_TEST(refused(tools, R"({"type":"allowed_tools"})") == place);
  BOOST_TEST(refused(tools, R"({"type":"allowed_tools","allowed_tools":{}})") == place + ".mode");
  BOOST_TEST(refused(tools, R"({"type":"allowed_tools","allowed_tools":{"mode":"auto"}})") ==
             place + ".tools");
  BOOST_TEST(refused(tools, allowed("none", time)) == place + ".mode");
  BOOST_TEST(refused(tools, allowed("auto", R"({"type":"function","function":{"name":"x"}})")) ==
             place + ".tools[0]");
  BOOST_TEST(refused(tools, allowed("auto", "5")) == place + ".tools[0]");
}

BOOST_AUTO_TEST_CASE(names_may_be_as_long_as_those_of_mcp_servers) {
  const auto named = [](std::size_t bytes) {
    return R"([{"type":"function","function":{"name":")" + std::string(bytes, 'x') + "\"}}]";
  };
  BOOST_TEST(check(named(128)).has_value());
  BOOST_TEST(refused(named(129)) == "tools[0].function.name");
}

BOOST_AUTO_TEST_CASE(formats_that_are_none) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "response_format.type"},
      {R"({"type":"xml"})", "response_format.type"},
      {R"({"type":"json_object","json_schema":{}})", "response_format.json_schema"},
      {R"({"type":"json_schema"})", "response_format.json_schema"},
      {R"({"type":"text","schema":{}})", "response_format.schema"},
      {R"({"schema":{}})", "response_format.schema"},
      {R"({"type":null,"schema":{}})", "response_format.schema"},
      {R"({"type":7,"schema":{}})", "response_format.schema"},
      {R"({"type":"json_object","schema":5})", "response_format"},
      {R"({"type":"json_schema","json_schema":{"name":"n"}})", "response_format.json_schema.schema"},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":5}})",
       "response_format.json_schema.schema"},
      {R"({"type":"json_schema","json_schema":{"name":"n","schema":{},"x":1}})",
       "response_format.json_schema.x"},
      {R"({"type":"grammar","grammar":"x"})", "response_format.grammar"},
  };
  for (const auto& [format, param] : cases) BOOST_TEST(refused("[]", "null", format) == param, format);
}

BOOST_AUTO_TEST_CASE(a_schema_as_llama_server_takes_it) {
  const auto direct = check("[]", "null", R"({"type":"json_object","schema":{"type":"string"}})");
  BOOST_TEST((direct->kind == constraint_kind::json));
  BOOST_TEST((direct->schema == json::value(json::object{{"type", "string"}})));
  const auto other = check("[]", "null", R"({"type":"json_schema","schema":{"type":"string"}})");
  BOOST_TEST((other->kind == constraint_kind::json && other->schema == direct->schema));
  BOOST_TEST(
      check("[]", "null", R"({"type":"json_schema","schema":{},"json_schema":{"schema":{}}})").has_value());
  BOOST_TEST(
      refused("[]", "null", R"({"type":"json_schema","schema":{"a":1},"json_schema":{"schema":{}}})") ==
      "response_format.schema");
  const auto nameless = check("[]", "null", R"({"type":"json_schema","json_schema":{"schema":{}}})");
  BOOST_TEST((nameless->kind == constraint_kind::json));
}

BOOST_AUTO_TEST_CASE(what_cannot_change_an_answer_is_not_for_the_template) {
  constexpr const char* tools = R"([{"type":"function","cache_control":{"type":"ephemeral"},
    "function":{"name":"f","defer_loading":false}}])";
  BOOST_TEST(json::serialize(check(tools)->tools) == R"([{"type":"function","function":{"name":"f"}}])");
  constraint_fields asked;
  asked.tools = json::parse(tools).as_array();
  asked.strict_fields = true;
  BOOST_TEST(check_constraints(std::move(asked)).error().param == "tools[0].cache_control");
}

BOOST_AUTO_TEST_CASE(an_unknown_member_that_is_null_is_absent) {
  constexpr const char* tools =
      R"([{"type":"function","x":null,"function":{"name":"f","y":null,"strict":null}}])";
  for (const bool strict : {false, true}) {
    constraint_fields asked;
    asked.tools = json::parse(tools).as_array();
    asked.tool_choice = json::parse(R"({"type":"function","x":null,"function":{"name":"f","y":null}})");
    asked.strict_fields = strict;
    const auto read = test::accepted(check_constraints(std::move(asked)), tools);
    BOOST_TEST(json::serialize(read.tools) ==
               R"([{"type":"function","function":{"name":"f","strict":null}}])");
  }
  BOOST_TEST((check("[]", "null", R"({"type":"json_object","strict":null})")->kind == constraint_kind::json));
}

BOOST_AUTO_TEST_CASE(a_format_says_nothing_where_a_call_is_demanded) {
  const std::string tools = "[" + weather + "]";
  for (const char* format :
       {R"({"type":"json_object"})", R"({"type":"json_schema","json_schema":{"name":"n","schema":{}}})"}) {
    const auto forced = check(tools, "\"required\"", format);
    BOOST_TEST_REQUIRE(forced.has_value());
    BOOST_TEST((forced->kind == constraint_kind::calls));
    BOOST_TEST(forced->tools.size() == 1U);
    BOOST_TEST(forced->schema.is_null());
  }
  BOOST_TEST(refused(tools, "\"required\"", R"({"type":"xml"})") == "response_format.type");
  BOOST_TEST((check(tools, "\"auto\"", R"({"type":"json_object"})")->kind == constraint_kind::json));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
