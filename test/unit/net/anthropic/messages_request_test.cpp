#include "net/anthropic/messages_request.hpp"

#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

struct parser : test::request_fixture {
  engine::result<completion_request> parse(const std::string& body) const {
    return parse_messages(body, limits());
  }
  /// A request with these fields besides `max_tokens`.
  completion_request take(const std::string& fields) const {
    return test::accepted(parse("{\"max_tokens\":8," + fields + "}"), fields);
  }
  completion_request with(const std::string& more) const {
    return take(R"("messages":[{"role":"user","content":"hi"}],)" + more);
  }
  std::string conversation(const std::string& fields) const { return json::serialize(take(fields).messages); }
  engine::error refusal_of(const std::string& fields) const {
    auto why = test::refusal(parse("{\"max_tokens\":8," + fields + "}"), fields);
    BOOST_TEST(why.message.find(why.param) != std::string::npos);
    return why;
  }
  /// The field that a refused body is refused for.
  std::string refused(const std::string& fields) const { return refusal_of(fields).param; }
  std::string refused_with(const std::string& more) const {
    return refused(R"("messages":[{"role":"user","content":"hi"}],)" + more);
  }
  std::string refused_block(const std::string& role, const std::string& block) const {
    return refused("\"messages\":[{\"role\":\"" + role + "\",\"content\":[" + block + "]}]");
  }
};

BOOST_FIXTURE_TEST_SUITE(messages_requests, parser)

BOOST_AUTO_TEST_CASE(system_and_content_are_strings_or_blocks) {
  const std::string whole = R"([{"role":"system","content":"a\nb"},{"role":"user","content":"c\nd"}])";
  BOOST_TEST(conversation(R"("system":"a\nb","messages":[{"role":"user","content":"c\nd"}])") == whole);
  BOOST_TEST(conversation(R"("messages":[{"role":"user","content":[{"type":"text","text":"c"},
      {"type":"text","text":"d","cache_control":{"type":"ephemeral"}}]}],
      "system":[{"type":"text","text":"a"},{"type":"text","text":"b"}])") == whole);
}

BOOST_AUTO_TEST_CASE(the_line_about_the_client_is_no_part_of_the_prompt) {
  BOOST_TEST(
      conversation(R"("system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=1; cch=f"},
      {"type":"text","text":"a"}],"messages":[{"role":"user","content":"b"}])") ==
      R"([{"role":"system","content":"a"},{"role":"user","content":"b"}])");
  BOOST_TEST(conversation(R"("system":[{"type":"text","text":"x-anthropic-billing-header: a\nb"}],
      "messages":[{"role":"user","content":"b"}])")
                 .find("billing") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_call_and_its_result) {
  const auto messages = take(R"("messages":[
      {"role":"user","content":"go"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},
        {"type":"redacted_thinking","data":"x"},{"type":"text","text":"so"},
        {"type":"tool_use","id":"t1","name":"f","input":{"a":1}},
        {"type":"tool_use","id":"t2","name":"g","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"one"},
        {"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"two"}]},
        {"type":"text","text":"well?"}]}])")
                            .messages;
  BOOST_TEST_REQUIRE(messages.size() == 5U);
  const auto& called = messages[1].as_object();
  BOOST_TEST(called.at("content") == "so");
  BOOST_TEST(called.at("reasoning_content") == "hm");
  BOOST_TEST(json::serialize(called.at("tool_calls")) ==
             R"([{"id":"t1","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
             R"({"id":"t2","type":"function","function":{"name":"g","arguments":{}}}])");
  BOOST_TEST(messages[2].at("role") == "tool");
  BOOST_TEST(messages[2].at("tool_call_id") == "t1");
  BOOST_TEST(messages[2].at("name") == "f");
  BOOST_TEST(messages[2].at("content") == "one");
  BOOST_TEST(messages[3].at("content") == "Error: two");
  BOOST_TEST(messages[4].at("content") == "well?");
}

BOOST_AUTO_TEST_CASE(results_without_content) {
  const auto text_of = [this](const std::string& more) {
    return take(R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t")" + more +
                "}]}]")
        .messages[0]
        .at("content");
  };
  BOOST_TEST((text_of("") == ""));
  BOOST_TEST((text_of(R"(,"is_error":true)") == "Error"));
  BOOST_TEST((text_of(R"(,"is_error":true,"content":"Error: no file")") == "Error: no file"));
  BOOST_TEST((text_of(R"(,"is_error":false,"content":[])") == ""));
}

BOOST_AUTO_TEST_CASE(neighbours_of_one_role_are_one_message) {
  BOOST_TEST(conversation(R"("messages":[{"role":"user","content":"a"},{"role":"user","content":"b"},
      {"role":"assistant","content":"c"},{"role":"assistant","content":"d"},
      {"role":"user","content":"e"}])") ==
             R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c\nd"},)"
             R"({"role":"user","content":"e"}])");
}

BOOST_AUTO_TEST_CASE(an_assistant_s_last_message_is_the_beginning_of_the_answer) {
  const auto begun = [](const std::string& last) {
    return R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":)" + last + "}]";
  };
  BOOST_TEST(take(begun("\"The\"")).shape.continues);
  BOOST_TEST(take(begun("\"\"")).shape.continues);
  BOOST_TEST(take(begun(R"([{"type":"thinking","thinking":"hm","signature":"s"}])")).shape.continues);
  BOOST_TEST(!take(R"("messages":[{"role":"user","content":"a"}])").shape.continues);
  for (const char* end : {" ", "\\n", "\\t", "a \\r"}) {
    const auto refusal = refusal_of(begun("\"The" + std::string(end) + "\""));
    BOOST_TEST(refusal.message == "messages: final assistant content cannot end with trailing whitespace");
    BOOST_TEST(refusal.param == "messages");
  }
  BOOST_TEST(refusal_of(begun(R"([{"type":"tool_use","id":"t","name":"f","input":{}}])")).param ==
             "messages");
  const std::string format = R"(,"output_config":{"format":{"type":"json_schema","schema":{}}})";
  BOOST_TEST(refusal_of(begun("\"{\"") + format).message.find("output_config.format") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(late_refusals_name_the_field_of_this_api) {
  const std::string format = R"({"type":"json_schema","schema":{"not":{}}})";
  const std::string ask = R"("messages":[{"role":"user","content":"a"}],)";
  BOOST_TEST(take(ask + R"("output_format":)" + format).constraints.field == "output_format");
  BOOST_TEST(take(ask + R"("output_config":{"format":)" + format + "}").constraints.field ==
             "output_config.format");
  using engine::errc;
  const auto told = in_words_of_messages({errc::invalid_request, "#/not: no", "output_config.format"});
  BOOST_TEST(told.message == "output_config.format: #/not: no");
  BOOST_TEST(in_words_of_messages({errc::context_length_exceeded, "too long", "messages"}).message ==
             "too long");
  BOOST_TEST(
      in_words_of_messages({errc::invalid_request, "'continue_final_message' no", "continue_final_message"})
          .message == "'messages' no");
  BOOST_TEST(in_words_of_messages({errc::invalid_request, "no", ""}).message == "no");
}

BOOST_AUTO_TEST_CASE(tools_and_choices) {
  const std::string tools = R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},
      "cache_control":{"type":"ephemeral"}},{"type":"custom","name":"g","input_schema":{}}])";
  const auto any = with(tools + R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})");
  BOOST_TEST((any.constraints.kind == constraint_kind::calls));
  BOOST_TEST(!any.constraints.parallel);
  BOOST_TEST(
      json::serialize(any.constraints.tools[0]) ==
      R"({"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}})");
  const auto one = with(tools + R"(,"tool_choice":{"type":"tool","name":"g"})");
  BOOST_TEST(one.constraints.function == "g");
  const auto free = with(tools + R"(,"tool_choice":{"type":"auto"})");
  BOOST_TEST((free.constraints.kind == constraint_kind::none));
  BOOST_TEST(free.constraints.tools.size() == 2U);
  BOOST_TEST(free.constraints.parallel);
  BOOST_TEST(with(tools + R"(,"tool_choice":{"type":"none"})").constraints.tools.empty());
}

BOOST_AUTO_TEST_CASE(thinking_and_effort_go_to_templates_that_read_them) {
  const auto hints = [this](const std::string& more) { return json::serialize(with(more).template_hints); };
  BOOST_TEST(hints(R"("stream":false)") == R"({"enable_thinking":false,"thinking":false})");
  BOOST_TEST(hints(R"("thinking":{"type":"disabled"})") == R"({"enable_thinking":false,"thinking":false})");
  BOOST_TEST(hints(R"("thinking":{"type":"adaptive"})") == R"({"enable_thinking":true,"thinking":true})");
  BOOST_TEST(hints(R"("thinking":{"type":"enabled","budget_tokens":1024})") ==
             R"({"thinking_budget":1024,"enable_thinking":true,"thinking":true})");
  BOOST_TEST(hints(R"("output_config":{"effort":"max"})") ==
             R"({"reasoning_effort":"high","enable_thinking":false,"thinking":false})");
  BOOST_TEST(with(R"("thinking":{"type":"adaptive","display":"omitted"})").omit_reasoning);
}

BOOST_AUTO_TEST_CASE(an_answer_of_a_schema) {
  const auto asked = with(R"("output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})");
  BOOST_TEST((asked.constraints.kind == constraint_kind::json));
  BOOST_TEST(json::serialize(asked.constraints.schema) == R"({"type":"object"})");
}

BOOST_AUTO_TEST_CASE(more_stop_sequences_than_a_chat_may_have) {
  BOOST_TEST(with(R"("stop_sequences":["a","b","c","d","e"])").stop.size() == 5U);
  std::string many = "\"stop_sequences\":[\"0\"";
  for (int i = 1; i < 65; ++i) many += ",\"" + std::to_string(i) + "\"";
  BOOST_TEST(refused_with(many + "]") == "stop_sequences");
}

BOOST_AUTO_TEST_CASE(fields_that_cannot_change_the_answer_are_taken) {
  for (const std::string more :
       {R"("metadata":{"user_id":"u"})", R"("service_tier":"auto")",
        R"("cache_control":{"type":"ephemeral"})", R"("speed":"fast")", R"("inference_geo":"eu")",
        R"("mcp_servers":[])", R"("container":null)",
        R"("context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]})"}) {
    with(more);
  }
}

BOOST_AUTO_TEST_CASE(searches_of_other_servers_are_left_out_and_named) {
  const auto asked = with(R"("tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8},
      {"name":"f","input_schema":{}},{"type":"web_fetch_20250910","name":"web_fetch"}])");
  BOOST_TEST(asked.constraints.tools.size() == 1U);
  BOOST_TEST((asked.left_out == left_names{"tool=web_search_20250305", "tool=web_fetch_20250910"}));
}

BOOST_AUTO_TEST_CASE(a_picture_in_a_result_becomes_a_text_that_is_named) {
  const auto asked = take(R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t",
      "content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"base64","data":"AA"}}]}]}])");
  BOOST_TEST((asked.messages[0].at("content") == "see\n[image]"));
  BOOST_TEST((asked.left_out == left_names{"content=image"}));
}

BOOST_AUTO_TEST_CASE(numbers_without_a_fraction_and_unknown_fields_that_are_null) {
  const auto asked = with(R"("top_k":5.0,"betas":null,"thinking":{"type":"enabled","budget_tokens":9.0})");
  BOOST_TEST(asked.sampling.top_k == 5U);
  BOOST_TEST(with(R"("tools":[{"name":")" + std::string(128, 'x') + R"(","input_schema":{}}])")
                 .constraints.tools.size() == 1U);
}

BOOST_AUTO_TEST_CASE(refusals_name_the_field) {
  for (const auto& [more, field] : std::vector<std::pair<std::string, std::string>>{
           {R"("temperature":1.5)", "temperature"},
           {R"("top_p":2)", "top_p"},
           {R"("stop_sequences":"x")", "stop_sequences"},
           {R"("stop_sequences":[""])", "stop_sequences"},
           {R"("system":7)", "system"},
           {R"("system":[{"type":"image","source":{}}])", "system[0].type"},
           {R"("tools":{})", "tools"},
           {R"("tools":[{"name":"f"}])", "tools[0].input_schema"},
           {R"("tools":[{"name":"f","input_schema":{},"defer_loading":true}])", "tools[0].defer_loading"},
           {R"("tools":[{"type":"bash_20250124","name":"bash"}])", "tools[0].type"},
           {R"("tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"any"})",
            "tool_choice"},
           {R"("tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"f"}])",
            "tools[1].input_schema"},
           {R"("tools":[{"name":"a b","input_schema":{}}])", "tools[0].name"},
           {R"("tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}])", "tools[1].name"},
           {R"("tool_choice":"auto")", "tool_choice"},
           {R"("tool_choice":{"type":"any"})", "tool_choice"},
           {R"("tool_choice":{"type":"tool"})", "tool_choice.name"},
           {R"("tool_choice":{"type":"auto","name":"f"})", "tool_choice.name"},
           {R"("tool_choice":{"type":"all"})", "tool_choice.type"},
           {R"("thinking":{"type":"deep"})", "thinking.type"},
           {R"("thinking":{"type":"enabled","budget_tokens":-1})", "thinking.budget_tokens"},
           {R"("output_config":{"effort":"most"})", "output_config.effort"},
           {R"("output_config":{"format":{"type":"yaml"}})", "output_config.format.type"},
           {R"("context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]})", "context_management"},
           {R"("mcp_servers":[{}])", "mcp_servers"},
           {R"("metadata":"u")", "metadata"},
           {R"("max_tokens_to_sample":3)", "max_tokens_to_sample"},
           {R"("n":2)", "n"}}) {
    BOOST_TEST(refused_with(more) == field, more);
  }
}

BOOST_AUTO_TEST_CASE(refusals_name_the_place_in_the_conversation) {
  BOOST_TEST(refused(R"("messages":[])") == "messages");
  BOOST_TEST(refused(R"("messages":null)") == "messages");
  BOOST_TEST(refused(R"("messages":["a"])") == "messages[0]");
  BOOST_TEST(refused(R"("messages":[{"role":"tool","content":"a"}])") == "messages[0].role");
  BOOST_TEST(refused(R"("messages":[{"role":"user"}])") == "messages[0].content");
  BOOST_TEST(refused(R"("messages":[{"role":"user","content":"a","name":"b"}])") == "messages[0].name");
  const std::string at = "messages[0].content[0]";
  BOOST_TEST(refused_block("user", R"({"type":"image","source":{"type":"url","url":"x"}})") == at + ".type");
  BOOST_TEST(refused_block("user", R"({"type":"document","source":{}})") == at + ".type");
  BOOST_TEST(refused_block("user", R"({"type":"tool_use","id":"a","name":"f","input":{}})") == at + ".type");
  BOOST_TEST(refused_block("user", R"({"type":"text"})") == at + ".text");
  BOOST_TEST(refused_block("user", R"({"text":"a"})") == at + ".type");
  BOOST_TEST(refused_block("user", "7") == at);
  BOOST_TEST(refused_block("user", R"({"type":"tool_result"})") == at + ".tool_use_id");
  BOOST_TEST(
      refused_block("user", R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"document"}]})") ==
      at + ".content[0].type");
  BOOST_TEST(refused_block("assistant", R"({"type":"tool_use","id":"a","name":"f"})") == at + ".input");
  BOOST_TEST(refused_block("assistant", R"({"type":"tool_use","id":"a","name":"f","input":"{}"})") ==
             at + ".input");
  BOOST_TEST(refused_block("assistant", R"({"type":"thinking","signature":"s"})") == at + ".thinking");
}

BOOST_AUTO_TEST_CASE(max_tokens_must_be_there_unless_tokens_are_counted) {
  const std::string body = R"({"messages":[{"role":"user","content":"hi"}]})";
  const auto parsed = parse(body);
  BOOST_TEST_REQUIRE(!parsed.has_value());
  BOOST_TEST(parsed.error().param == "max_tokens");
  BOOST_TEST(parse(R"({"max_tokens":-1,"messages":[{"role":"user","content":"hi"}]})").error().param ==
             "max_tokens");
  const completion_limits limits{lengths, served};
  const auto counted = parse_count_tokens(body, limits);
  BOOST_TEST_REQUIRE(counted.has_value());
  BOOST_TEST(counted->count_only);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
