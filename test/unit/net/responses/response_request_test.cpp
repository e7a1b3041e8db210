#include "net/responses/response_request.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

struct parser : test::request_fixture {
  engine::result<completion_request> parse(const std::string& more) const {
    return parse_response(R"({"input":"hi")" + more + "}", limits());
  }
  completion_request accepted(const std::string& more) const { return test::accepted(parse(more), more); }
  json::object told(const std::string& more) const {
    return json::parse("{" + accepted(more).echo + "}").as_object();
  }
  engine::error refusal(const std::string& more) const { return test::refusal(parse(more), more); }
  std::string refused(const std::string& more) const { return refusal(more).param; }
  static const response_notes& notes_of(const completion_request& request) {
    return dynamic_cast<const response_notes&>(*request.notes);
  }
};

/// With a store, and in it one response of one message: "hi", answered "ho".
struct storing : parser {
  storing() {
    auto input = std::make_shared<kept_items>();
    input->push_back({"m1", R"({"id":"m1","type":"message","role":"user","content":"hi"})"});
    kept_items output{{"m2", R"({"id":"m2","type":"message","role":"assistant","content":[
        {"type":"output_text","text":"ho"}]})"}};
    store->keep(owner, "resp_1", {std::move(input), std::move(output)}, {});
  }
  engine::result<completion_request> ask(const std::string& more, const key_owner& who,
                                         std::size_t recalled_bytes_max = 10'000) const {
    completion_limits kept = limits();
    kept.shelf = response_shelf{store, who};
    kept.recalled_bytes_max = recalled_bytes_max;
    return parse_response(R"({"input":"go on")" + more + "}", kept);
  }
  std::shared_ptr<response_store> store = std::make_shared<response_store>(std::size_t{1} << 20U);
  key_owner owner{"1", "ann", "ann"};
};

BOOST_FIXTURE_TEST_SUITE(response_body, parser)

BOOST_AUTO_TEST_CASE(as_clients_of_other_servers_write_it) {
  BOOST_TEST(accepted(R"(,"max_output_tokens":5.0,"betas":null)").max_tokens.value() == 5U);
  BOOST_TEST(json::serialize(told(R"(,"temperature":1.0)").at("temperature")) == "1E0");
  const auto searching = accepted(R"(,"tools":[{"type":"web_search"}])");
  BOOST_TEST((searching.left_out == left_names{"tool=web_search"}));
}

BOOST_AUTO_TEST_CASE(only_what_is_required) {
  const auto r = accepted("");
  BOOST_TEST((r.kind == completion_kind::chat));
  BOOST_TEST(!r.stream);
  BOOST_TEST(!r.logprobs);
  BOOST_TEST(r.sampling.temperature == 1.0F);
  BOOST_TEST(r.messages.size() == 1U);
  BOOST_TEST(!notes_of(r).seals_reasoning);
}

BOOST_AUTO_TEST_CASE(every_field_that_is_honoured) {
  const auto r = accepted(R"(,"model":"served","instructions":"be brief","max_output_tokens":7,
      "temperature":0.5,"top_p":0.25,"stream":true,"parallel_tool_calls":false,"top_logprobs":3,"seed":5,
      "include":["reasoning.encrypted_content","message.output_text.logprobs","file_search_call.results"],
      "tools":[{"type":"function","name":"f"}],"tool_choice":"required","reasoning":{"effort":"xhigh"},
      "ignore_eos":true,"top_k":4,"cache_salt":"s")");
  BOOST_TEST(r.messages.size() == 2U);
  BOOST_TEST(*r.max_tokens == 7U);
  BOOST_TEST(r.max_tokens_field == "max_output_tokens");
  BOOST_TEST(r.sampling.temperature == 0.5F);
  BOOST_TEST(r.sampling.top_p == 0.25F);
  BOOST_TEST(r.sampling.top_k == 4U);
  BOOST_TEST(r.stream);
  BOOST_TEST(r.logprobs);
  BOOST_TEST(r.top_logprobs == 3U);
  BOOST_TEST(*r.seed == 5U);
  BOOST_TEST(r.ignore_eos);
  BOOST_TEST(r.cache.salt == "s");
  BOOST_TEST(!r.constraints.parallel);
  BOOST_TEST((r.constraints.kind == constraint_kind::calls));
  BOOST_TEST(r.template_hints.at("reasoning_effort").as_string() == "high");
  BOOST_TEST(r.template_hints.at("enable_thinking").as_bool());
  BOOST_TEST(notes_of(r).seals_reasoning);
  BOOST_TEST(notes_of(r).logprobs);
}

BOOST_AUTO_TEST_CASE(efforts) {
  const auto hints = [this](const std::string& effort) {
    return json::serialize(accepted(",\"reasoning\":{\"effort\":\"" + effort + "\"}").template_hints);
  };
  BOOST_TEST(hints("none") == R"({"reasoning_effort":"low","enable_thinking":false})");
  BOOST_TEST(hints("minimal") == R"({"reasoning_effort":"low","enable_thinking":true})");
  BOOST_TEST(hints("medium") == R"({"reasoning_effort":"medium","enable_thinking":true})");
  BOOST_TEST(accepted(R"(,"reasoning":{"summary":"auto"})").template_hints.empty());
}

BOOST_AUTO_TEST_CASE(formats_of_text) {
  BOOST_TEST((accepted(R"(,"text":{"format":{"type":"text"},"verbosity":"low"})").constraints.kind ==
              constraint_kind::none));
  BOOST_TEST(
      (accepted(R"(,"text":{"format":{"type":"json_object"}})").constraints.kind == constraint_kind::json));
  const auto r = accepted(R"(,"text":{"format":{"type":"json_schema","name":"n","strict":true,
                              "schema":{"type":"object"}}})");
  BOOST_TEST((r.constraints.kind == constraint_kind::json));
  BOOST_TEST(r.constraints.strict);
  BOOST_TEST(json::serialize(r.constraints.schema) == R"({"type":"object"})");
}

BOOST_AUTO_TEST_CASE(the_answer_repeats_the_request_and_says_what_else_holds) {
  const auto nothing = told("");
  BOOST_TEST(nothing.at("instructions").is_null());
  BOOST_TEST(nothing.at("store") == json::value(false));
  BOOST_TEST(nothing.at("tool_choice") == json::value("auto"));
  BOOST_TEST(nothing.at("truncation") == json::value("disabled"));
  BOOST_TEST(json::serialize(nothing.at("text")) == R"({"format":{"type":"text"}})");
  const auto much = told(R"(,"metadata":{"a":"b"},"user":"u","instructions":"i","temperature":0.5,
                             "tools":[{"type":"web_search"},{"type":"function","name":"f","strict":null}])");
  BOOST_TEST(json::serialize(much.at("metadata")) == R"({"a":"b"})");
  BOOST_TEST(much.at("user") == json::value("u"));
  BOOST_TEST(much.at("instructions") == json::value("i"));
  BOOST_TEST(much.at("temperature") == json::value(0.5));
  BOOST_TEST(json::serialize(much.at("tools")) == R"([{"type":"function","name":"f","strict":null}])");
}

BOOST_AUTO_TEST_CASE(fields_that_cannot_change_the_answer) {
  accepted(R"(,"store":false,"background":false,"truncation":"disabled","user":"u","safety_identifier":"s",
      "prompt_cache_key":"k","prompt_cache_retention":"24h","prompt_cache_options":{"ttl":"30m"},
      "client_metadata":{"x":"y"},"service_tier":"priority","max_tool_calls":3,"previous_response_id":null,
      "conversation":null,"prompt":null,"moderation":null,"stream_options":{"include_obfuscation":false},
      "reasoning":{"effort":null,"summary":"detailed","context":"auto"},"access_programs":{})");
}

BOOST_AUTO_TEST_CASE(refusals_have_the_names_of_this_api) {
  BOOST_TEST(refused(R"(,"store":true)") == "store");
  BOOST_TEST(refused(R"(,"previous_response_id":"resp_1")") == "previous_response_id");
  BOOST_TEST(refused(R"(,"conversation":"conv_1")") == "conversation");
  BOOST_TEST(refused(R"(,"background":true)") == "background");
  BOOST_TEST(refused(R"(,"truncation":"auto")") == "truncation");
  BOOST_TEST(refused(R"(,"messages":[])") == "messages");
  BOOST_TEST(refused(R"(,"max_tokens":1)") == "max_tokens");
  BOOST_TEST(refused(R"(,"max_output_tokens":"x")") == "max_output_tokens");
  BOOST_TEST(refusal(R"(,"max_output_tokens":"x")").message.find("'max_output_tokens'") == 0U);
  BOOST_TEST(refused(R"(,"model":"other")") == "model");
  BOOST_TEST(refused(R"(,"include":["all"])") == "include[0]");
  BOOST_TEST(refused(R"(,"include":[7])") == "include[0]");
  BOOST_TEST(refused(R"(,"reasoning":{"effort":"huge"})") == "reasoning.effort");
  BOOST_TEST(refused(R"(,"reasoning":{"budget":1})") == "reasoning.budget");
  BOOST_TEST(refused(R"(,"text":{"verbosity":"mute"})") == "text.verbosity");
  BOOST_TEST(refused(R"(,"text":{"format":{"type":"yaml"}})") == "text.format.type");
  BOOST_TEST(refused(R"(,"text":{"format":{"type":"json_object","schema":{}}})") == "text.format.schema");
  BOOST_TEST(refused(R"(,"text":{"format":{"type":"json_schema","schema":{}}})") == "text.format.name");
  BOOST_TEST(refused(R"(,"text":{"format":{"type":"json_schema","name":"n"}})") == "text.format.schema");
  BOOST_TEST(refused(R"(,"stream_options":{"include_obfuscation":true})") ==
             "stream_options.include_obfuscation");
  BOOST_TEST(refused(R"(,"metadata":{"a":1})") == "metadata.a");
  BOOST_TEST(refused(R"(,"top_logprobs":21)") == "top_logprobs");
  BOOST_TEST(refused(R"(,"tools":[{"type":"web_search"},{"type":"function","name":"f!"}])") ==
             "tools[1].name");
  BOOST_TEST(refused(R"(,"tool_choice":"required")") == "tool_choice");
  BOOST_TEST(refused(R"(,"tools":[{"type":"web_search"}],"tool_choice":"required")") == "tool_choice");
  completion_limits limits{lengths, served};
  BOOST_TEST(parse_response("{}", limits).error().param == "input");
}

BOOST_FIXTURE_TEST_CASE(a_response_is_kept_unless_the_request_says_no, storing) {
  const auto kept = ask("", owner);
  BOOST_TEST_REQUIRE(notes_of(*kept).shelf.has_value());
  BOOST_TEST(notes_of(*kept).input->size() == 1U);
  BOOST_TEST(json::parse("{" + kept->echo + "}").at("store") == json::value(true));
  BOOST_TEST(notes_of(*ask(R"(,"store":true)", owner)).shelf.has_value());
  const auto left = ask(R"(,"store":false)", owner);
  BOOST_TEST(!notes_of(*left).shelf.has_value());
  BOOST_TEST(json::parse("{" + left->echo + "}").at("store") == json::value(false));
  BOOST_TEST(!notes_of(accepted("")).shelf.has_value());
}

BOOST_FIXTURE_TEST_CASE(a_request_goes_on_from_a_response_without_its_instructions, storing) {
  const auto r = ask(R"(,"previous_response_id":"resp_1","instructions":"new")", owner);
  BOOST_TEST_REQUIRE(r.has_value());
  BOOST_TEST(json::serialize(r->messages) ==
             R"([{"role":"system","content":"new"},{"role":"user","content":"hi"},)"
             R"({"role":"assistant","content":"ho"},{"role":"user","content":"go on"}])");
  BOOST_TEST(notes_of(*r).earlier.size() == 1U);
  BOOST_TEST(json::parse("{" + r->echo + "}").at("previous_response_id") == json::value("resp_1"));
}

BOOST_FIXTURE_TEST_CASE(a_response_that_is_not_there, storing) {
  for (const auto& who : {key_owner(), key_owner{"2", "ann", "ann"}}) {
    const auto lost = ask(R"(,"previous_response_id":"resp_1")", who);
    BOOST_TEST_REQUIRE(!lost.has_value());
    BOOST_TEST(lost.error().param == "previous_response_id");
    BOOST_TEST((lost.error().code == engine::errc::not_found));
    BOOST_TEST(lost.error().message == "Previous response with id 'resp_1' not found.");
  }
  BOOST_TEST(ask(R"(,"previous_response_id":7)", owner).error().param == "previous_response_id");
  BOOST_TEST(ask(R"(,"previous_response_id":"")", owner).error().param == "previous_response_id");
  BOOST_TEST(ask(R"(,"conversation":"conv_1")", owner).error().param == "conversation");
}

BOOST_FIXTURE_TEST_CASE(a_long_conversation_is_left_to_another_thread, storing) {
  BOOST_TEST(ask(R"(,"previous_response_id":"resp_1")", owner, 50)->unread);
  BOOST_TEST(!ask(R"(,"previous_response_id":"resp_1")", owner)->unread);
  BOOST_TEST(!ask("", owner, 0)->unread);
}

BOOST_AUTO_TEST_CASE(later_refusals_too) {
  BOOST_TEST(accepted(R"(,"text":{"format":{"type":"json_object"}})").constraints.field == "text.format");
  BOOST_TEST(
      in_words_of_responses({engine::errc::invalid_request, "'messages' is long", "messages"}).message ==
      "'input' is long");
  BOOST_TEST(in_words_of_responses({engine::errc::invalid_request, "no field", ""}).message == "no field");
  BOOST_TEST(in_words_of_responses(refusal(R"(,"messages":[])")).param == "messages");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
