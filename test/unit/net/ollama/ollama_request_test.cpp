#include "net/ollama/ollama_request.hpp"

#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

#include "test/unit/net/completion/request_fixture.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

struct ollama_parser : test::request_fixture {
  completion_limits all() const {
    auto out = limits();
    out.infill = {290, 291, 292, 293, 294};
    return out;
  }
  completion_request chat(const std::string& fields) const {
    return test::accepted(parse_ollama_chat("{" + fields + "}", all()), fields);
  }
  completion_request chat_with(const std::string& more) const {
    return chat(R"("messages":[{"role":"user","content":"hi"}],)" + more);
  }
  completion_request generate(const std::string& fields) const {
    return test::accepted(parse_ollama_generate("{" + fields + "}", all()), fields);
  }
  /// The field that a refused body is refused for; its message names it.
  static std::string named(const engine::error& why) {
    BOOST_TEST(why.message.find(why.param) != std::string::npos, why.message);
    return why.param;
  }
  std::string refused_chat(const std::string& fields) const {
    return named(test::refusal(parse_ollama_chat("{" + fields + "}", all()), fields));
  }
  std::string refused_with(const std::string& more) const {
    return refused_chat(R"("messages":[{"role":"user","content":"hi"}],)" + more);
  }
  std::string refused_generate(const std::string& fields) const {
    return named(test::refusal(parse_ollama_generate("{" + fields + "}", all()), fields));
  }
};

BOOST_FIXTURE_TEST_SUITE(ollama_requests, ollama_parser)

BOOST_AUTO_TEST_CASE(messages_become_those_of_a_chat) {
  const auto request = chat(R"("messages":[{"role":"system","content":"s","images":null},
      {"role":"user","content":"u","images":[]},
      {"role":"assistant","content":"","thinking":"hm","tool_calls":[
        {"id":"c1","function":{"index":0,"name":"f","description":"d","arguments":{"a":{"b":[1]}}}},
        {"function":{"name":"g","arguments":{}}}]},
      {"role":"tool","content":"1","tool_name":"f"},{"role":"tool","content":"2","tool_name":"g"},
      {"role":"assistant","content":"ok","thinking":"","tool_calls":[]}])");
  BOOST_TEST(json::serialize(request.messages) ==
             R"([{"role":"system","content":"s"},{"role":"user","content":"u"},)"
             R"({"role":"assistant","content":"","tool_calls":[)"
             R"({"id":"c1","type":"function","function":{"name":"f","arguments":{"a":{"b":[1]}}}},)"
             R"({"id":"call_0","type":"function","function":{"name":"g","arguments":{}}}],)"
             R"("reasoning_content":"hm","thinking":"hm"},)"
             R"({"role":"tool","content":"1","name":"f","tool_call_id":"c1"},)"
             R"({"role":"tool","content":"2","name":"g","tool_call_id":"call_0"},)"
             R"({"role":"assistant","content":"ok"}])");
  BOOST_TEST(request.stream);
  BOOST_TEST((request.kind == completion_kind::chat && !request.max_tokens));
}

BOOST_AUTO_TEST_CASE(pictures_are_refused_by_name) {
  BOOST_TEST(refused_chat(R"("messages":[{"role":"user","content":"u","images":["aGk="]}])") ==
             "messages[0].images");
  BOOST_TEST(refused_generate(R"("prompt":"u","images":["aGk="])") == "images");
}

BOOST_AUTO_TEST_CASE(options_are_those_of_a_completion) {
  const auto request = chat_with(R"("stream":false,"keep_alive":"5m","options":{"num_predict":7,"top_k":3,
      "temperature":0.5,"top_p":0.9,"min_p":0.1,"seed":4,"stop":["a","b"],"repeat_penalty":1.1,
      "repeat_last_n":9,"presence_penalty":0.2,"frequency_penalty":-0.3,"ignore_eos":true,
      "typical_p":1.0,"tfs_z":1,"mirostat":0,"mirostat_tau":5.0,"mirostat_eta":0.1,"num_ctx":8192,
      "num_keep":4,"num_batch":2,"num_gpu":1,"main_gpu":0,"num_thread":8,"numa":false,"low_vram":false,
      "f16_kv":true,"logits_all":false,"use_mmap":true,"use_mlock":false,"vocab_only":false,
      "embedding_only":false,"penalize_newline":true})");
  BOOST_TEST(!request.stream);
  BOOST_TEST((request.max_tokens == 7U && request.seed == 4U && request.ignore_eos));
  BOOST_TEST(request.sampling.temperature == 0.5F);
  BOOST_TEST(request.sampling.top_p == 0.9F);
  BOOST_TEST(request.sampling.min_p == 0.1F);
  BOOST_TEST(request.sampling.top_k == 3U);
  BOOST_TEST(request.sampling.repetition_penalty == 1.1F);
  BOOST_TEST(request.sampling.repeat_last_n == 9U);
  BOOST_TEST(request.sampling.presence_penalty == 0.2F);
  BOOST_TEST(request.sampling.frequency_penalty == -0.3F);
  BOOST_TEST((request.stop == std::vector<std::string>{"a", "b"}));
  for (const char* none : {"-1", "-2", "0"}) {
    BOOST_TEST(!chat_with(R"("options":{"num_predict":)" + std::string(none) + "}").max_tokens);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_served_is_refused_by_its_path) {
  BOOST_TEST(refused_with(R"("options":{"temperature":9})") == "options.temperature");
  BOOST_TEST(refused_with(R"("options":{"mirostat":2})") == "options.mirostat");
  BOOST_TEST(refused_with(R"("options":{"typical_p":2})") == "options.typical_p");
  BOOST_TEST(chat_with(R"("options":{"typical_p":0.5})").sampling.typical_p == 0.5F);
  BOOST_TEST(refused_with(R"("options":{"num_predict":"x"})") == "options.num_predict");
  BOOST_TEST(refused_with(R"("options":{"frobnicate":1})") == "options.frobnicate");
  BOOST_TEST(refused_with(R"("options":[])") == "options");
  BOOST_TEST(refused_with(R"("frobnicate":1)") == "frobnicate");
  BOOST_TEST(refused_with(R"("think":"much")") == "think");
  BOOST_TEST(refused_with(R"("format":"yaml")") == "format");
  BOOST_TEST(refused_with(R"("top_logprobs":2)") == "top_logprobs");
  BOOST_TEST(refused_with(R"("stream":"x")") == "stream");
  BOOST_TEST(refused_with(R"("model":"other")") == "model");
}

BOOST_AUTO_TEST_CASE(names_may_have_the_tag_latest) {
  served.model_aliases = {"org/small:8b"};
  for (const char* name : {"served", "served:latest", "org/small:8b", "small:8b", "small:8b:latest"}) {
    BOOST_TEST(chat_with(R"("model":")" + std::string(name) + "\"").model.empty(), name);
  }
  BOOST_TEST(refused_with(R"("model":"served:8b")") == "model");
}

BOOST_AUTO_TEST_CASE(formats_are_json_or_a_schema) {
  BOOST_TEST((chat_with(R"("format":"")").constraints.kind == constraint_kind::none));
  const auto any = chat_with(R"("format":"json")").constraints;
  BOOST_TEST((any.kind == constraint_kind::json && any.schema.is_null() && any.field == "format"));
  const auto schema = chat_with(R"("format":{"type":"object"})").constraints;
  BOOST_TEST((schema.kind == constraint_kind::json && schema.field == "format"));
  BOOST_TEST(json::serialize(schema.schema) == R"({"type":"object"})");
}

BOOST_AUTO_TEST_CASE(thinking_is_a_hint_to_the_template) {
  const auto hints = [this](const std::string& think) {
    return json::serialize(chat_with(R"("think":)" + think).template_hints);
  };
  BOOST_TEST(hints("true") == R"({"enable_thinking":true,"thinking":true})");
  BOOST_TEST(hints("false") == R"({"enable_thinking":false,"thinking":false})");
  BOOST_TEST(hints("\"low\"") == R"({"enable_thinking":true,"thinking":true,"reasoning_effort":"low"})");
  BOOST_TEST(hints("null") == "{}");
}

BOOST_AUTO_TEST_CASE(tools_and_log_probabilities) {
  const auto request = chat_with(R"("logprobs":true,"top_logprobs":3,
      "tools":[{"function":{"name":"f","parameters":{"type":"object"}}}])");
  BOOST_TEST((request.logprobs && request.top_logprobs == 3U));
  BOOST_TEST(json::serialize(request.constraints.tools) ==
             R"([{"function":{"name":"f","parameters":{"type":"object"}},"type":"function"}])");
}

BOOST_AUTO_TEST_CASE(a_prompt_is_a_message_of_the_user) {
  const auto request = generate(R"("prompt":"p","system":"s","template":"","context":[],"suffix":"")");
  BOOST_TEST((request.kind == completion_kind::chat && request.stream));
  BOOST_TEST(json::serialize(request.messages) ==
             R"([{"role":"system","content":"s"},{"role":"user","content":"p"}])");
}

BOOST_AUTO_TEST_CASE(a_raw_prompt_is_text_and_a_suffix_makes_a_gap) {
  const auto raw = generate(R"("prompt":"p","raw":true,"format":"json","logprobs":true,"top_logprobs":2)");
  BOOST_TEST(
      (raw.kind == completion_kind::text && raw.prompts == std::vector<text_prompt>{{prompt_text{"p"}}}));
  BOOST_TEST((raw.constraints.kind == constraint_kind::json && raw.logprobs && raw.top_logprobs == 2U));
  const auto gap = generate(R"("prompt":"a","suffix":"b")");
  BOOST_TEST_REQUIRE((gap.kind == completion_kind::text && gap.prompts.size() == 1U));
  BOOST_TEST(gap.prompts.front().size() > 1U);
}

BOOST_AUTO_TEST_CASE(what_a_prompt_cannot_have) {
  BOOST_TEST(refused_generate(R"("prompt":"p","template":"{{ .Prompt }}")") == "template");
  BOOST_TEST(refused_generate(R"("prompt":"p","context":[1,2])") == "context");
  BOOST_TEST(refused_generate(R"("prompt":"p","raw":true,"system":"s")") == "system");
  BOOST_TEST(refused_generate(R"("prompt":"p","suffix":"b","system":"s")") == "system");
  BOOST_TEST(refused_generate(R"("prompt":1)") == "prompt");
  BOOST_TEST(refused_generate(R"("prompt":"p","messages":[])") == "messages");
}

BOOST_AUTO_TEST_CASE(nothing_to_answer_asks_for_the_model) {
  const auto chat = [this](const std::string& body) {
    return test::accepted(asks_to_load(ollama_use::chat, body, all()), body);
  };
  const auto generate = [this](const std::string& body) {
    return test::accepted(asks_to_load(ollama_use::generate, body, all()), body);
  };
  BOOST_TEST((chat(R"({"model":"served:latest"})") == std::optional<std::string>("served")));
  BOOST_TEST(
      (chat(R"({"messages":[],"keep_alive":0,"stream":true})") == std::optional<std::string>("served")));
  BOOST_TEST(
      (generate(R"({"model":"served","prompt":"","raw":false})") == std::optional<std::string>("served")));
  BOOST_TEST(!chat(R"({"messages":[{"role":"user","content":""}]})"));
  BOOST_TEST(!chat("{"));
  BOOST_TEST(!generate(R"({"prompt":"p"})"));
  BOOST_TEST(!generate(R"({"suffix":"p"})"));
  const auto refused = [this](ollama_use use, const std::string& body) {
    return named(test::refusal(asks_to_load(use, body, all()), body));
  };
  BOOST_TEST(refused(ollama_use::chat, R"({"model":"other"})") == "model");
  BOOST_TEST(refused(ollama_use::chat, R"({"message":[]})") == "message");
  BOOST_TEST(refused(ollama_use::chat, R"({"prompt":""})") == "prompt");
  BOOST_TEST(refused(ollama_use::chat, R"({"tools":[null]})") == "tools[0]");
  BOOST_TEST(refused(ollama_use::generate, R"({"tools":[]})") == "tools");
  BOOST_TEST(refused(ollama_use::generate, R"({"messages":[]})") == "messages");
  BOOST_TEST(refused(ollama_use::generate, R"({"images":["x"]})") == "images");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
