#include "net/prepare_completion.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/grammar/grammar.hpp"
#include "test/unit/net/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using namespace std::chrono_literals;

const engine::steady_time begin{1h};
const std::chrono::system_clock::time_point wall{std::chrono::milliseconds(1'759'521'600'000)};

/// One token per byte, and a BOS (256) where special tokens are added or its text begins the prompt.
class bos_tokenizer final : public engine::tokenizer {
 public:
  std::vector<engine::token_id> encode(std::string_view text,
                                       const engine::encode_options& o) const override {
    std::vector<engine::token_id> out;
    if (o.add_special) out.push_back(256);
    if (o.parse_special && text.starts_with("<s>")) {
      out.push_back(256);
      text.remove_prefix(3);
    }
    const auto rest = letters_.encode(text, o);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }
  void append_bytes(engine::token_id t, std::string& out, bool s) const override {
    letters_.append_bytes(t, out, s);
  }
  std::string decode(std::span<const engine::token_id> t, bool s) const override {
    return letters_.decode(t, s);
  }
  std::uint32_t vocab_size() const noexcept override { return 257; }
  std::string_view piece(engine::token_id) const noexcept override { return {}; }
  bool is_end_of_generation(engine::token_id) const noexcept override { return false; }
  bool is_control(engine::token_id t) const noexcept override { return t == 256; }
  std::span<const engine::token_id> end_of_generation() const noexcept override { return {}; }
  engine::token_id bos() const noexcept override { return 256; }
  engine::token_id eos() const noexcept override { return -1; }
  std::string_view kind() const noexcept override { return "letters"; }

 private:
  test::letter_tokenizer letters_;
};

struct fixture {
  fixture() {
    lengths.context_tokens = 100;
    request.received_at = begin;
    use("{% for m in messages %}{{ m.content }}{% endfor %}");
  }
  void use(std::string_view text) {
    format.emplace(engine::chat_format::make(text, {{"bos_token", "<s>"}}).value());
  }
  engine::result<prepared_completion> chat(const std::string& more = {}) {
    request.body = R"({"messages":[{"role":"user","content":"abc"}])" + more + "}";
    return prepare(completion_kind::chat);
  }
  engine::result<prepared_completion> prepare(completion_kind kind) {
    completion_limits limits{lengths, "served"};
    limits.vocab = 257;
    limits.choices_max = 4;
    limits.request_template = true;
    limits.system_tokens_min = system_tokens_min;
    return prepare_completion(request, kind, {limits, tokenizer, format ? &*format : nullptr, tokens}, wall);
  }

  execute_limits lengths;
  std::uint32_t system_tokens_min = 1;
  bos_tokenizer tokenizer;
  std::optional<engine::chat_format> format;
  http_request request;
  std::shared_ptr<const engine::grammar::token_table> tokens;
};

BOOST_FIXTURE_TEST_SUITE(prepared_completions, fixture)

BOOST_AUTO_TEST_CASE(a_chat_becomes_one_job) {
  const auto p = chat(R"(,"seed":9,"logprobs":true,"top_logprobs":3)");
  BOOST_TEST_REQUIRE(p.has_value());
  BOOST_TEST(p->id.starts_with("chatcmpl-"));
  BOOST_TEST_REQUIRE(p->jobs.size() == 1U);
  const auto& job = p->jobs[0];
  BOOST_TEST(job.job_id == p->id);
  BOOST_TEST(job.prompt == (std::vector<engine::token_id>{256, 'a', 'b', 'c'}),
             boost::test_tools::per_element());
  BOOST_TEST(job.max_tokens == 97U);
  BOOST_TEST(job.seed == 9U);
  BOOST_TEST(job.logprobs);
  BOOST_TEST(job.top_logprobs == 3U);
  BOOST_TEST(p->prompt_chars == 3U);
  BOOST_TEST(p->prompt_digest.starts_with("sha256:"));
}

BOOST_AUTO_TEST_CASE(a_template_that_prints_bos_gets_no_second_one) {
  use("{{ bos_token }}{{ messages[0].content }}");
  BOOST_TEST(chat()->jobs[0].prompt == (std::vector<engine::token_id>{256, 'a', 'b', 'c'}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(tools_and_documents_are_none_for_the_template) {
  use("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}");
  const auto p = chat();
  BOOST_TEST(tokenizer.decode(p->jobs[0].prompt, true) == "TrueTrueTrue");
}

const std::string tool = R"({"type":"function","function":{"name":"f","parameters":{"type":"object"}}})";

BOOST_AUTO_TEST_CASE(tools_go_to_the_template_as_they_are) {
  BOOST_TEST(chat(",\"tools\":[" + tool + "]").error().param == "tools");  // which does not read them
  use("{% if tools %}{{ tools | length }}{{ tools[0].function.name }}{% endif %}<tool_call>");
  const auto p = chat(",\"tools\":[" + tool + "]");
  BOOST_TEST(tokenizer.decode(p->jobs[0].prompt, true) == "1f<tool_call>");
  BOOST_TEST((p->form.format.calls == engine::call_format::hermes));
  const auto none = chat(",\"tool_choice\":\"none\",\"tools\":[" + tool + "]");
  BOOST_TEST(tokenizer.decode(none->jobs[0].prompt, true) == "<tool_call>");
  BOOST_TEST(!none->form.parts());
}

BOOST_AUTO_TEST_CASE(what_is_to_be_enforced_needs_a_token_table) {
  use("{% if tools %}{{ tools }}{% endif %}<tool_call>");
  const std::string forced = ",\"tool_choice\":\"required\",\"tools\":[" + tool + "]";
  BOOST_TEST(chat(forced).error().param == "tool_choice");
  BOOST_TEST(chat(R"(,"response_format":{"type":"json_object"})").error().param == "response_format");
  tokens = engine::grammar::make_token_table(tokenizer, tokenizer.vocab_size());
  BOOST_TEST_REQUIRE(chat(forced)->grammar.has_value());
  BOOST_TEST((chat(forced)->grammar->demand.rule == output_rule::calls));
  BOOST_TEST((chat(forced)->grammar->frame.format.calls == engine::call_format::hermes));
  BOOST_TEST(chat(R"(,"response_format":{"type":"json_object"})")->grammar.has_value());
  BOOST_TEST(!chat()->grammar.has_value());
}

BOOST_AUTO_TEST_CASE(where_the_output_begins) {
  tokens = engine::grammar::make_token_table(tokenizer, tokenizer.vocab_size());
  const std::string object = R"(,"response_format":{"type":"json_object"})";
  use("{{ messages[0].content }}<think>\n");
  BOOST_TEST(chat()->form.options.in_reasoning);
  BOOST_TEST(chat(object)->grammar->frame.in_reasoning);
  use("{{ messages[0].content }}<think>\n\n</think>\n\n");
  BOOST_TEST(!chat()->form.options.in_reasoning);
  BOOST_TEST(!chat(object)->grammar->frame.may_reason);
}

BOOST_AUTO_TEST_CASE(stop_strings_go_to_what_parts_the_output) {
  BOOST_TEST(chat(R"(,"stop":"x")")->form.stop.empty());
  use("{{ messages[0].content }}</think>");
  BOOST_TEST(chat(R"(,"stop":"x")")->form.stop.size() == 1U);
}

BOOST_AUTO_TEST_CASE(what_the_prefix_cache_is_told) {
  use("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}[a]{% endif %}");
  BOOST_TEST(chat()->jobs[0].cache.system_tokens == 0U);
  request.imc_id = "header";
  BOOST_TEST(chat()->jobs[0].cache.session == "header");
  BOOST_TEST(chat(R"(,"imc_id":"field","cache_salt":"t")")->jobs[0].cache.session == "field");
  BOOST_TEST(chat(R"(,"cache_salt":"t")")->jobs[0].cache.salt == "t");
  request.body = R"({"messages":[{"role":"system","content":"be"},{"role":"user","content":"abc"}]})";
  // BOS, [system] and the text.
  BOOST_TEST(prepare(completion_kind::chat)->jobs[0].cache.system_tokens == 11U);
  system_tokens_min = 100;
  BOOST_TEST(prepare(completion_kind::chat)->jobs[0].cache.system_tokens == 0U);
  system_tokens_min = 1;
  use("{% if messages | length < 2 %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}");
  BOOST_TEST(prepare(completion_kind::chat)->jobs[0].cache.system_tokens == 0U);
  request.imc_id = std::string(300, 'x');
  BOOST_TEST(chat().error().param == "KRONK_IMC_ID");
}

BOOST_AUTO_TEST_CASE(choices_are_jobs_with_seeds_of_their_own) {
  const auto p = chat(R"(,"seed":9,"n":3)");
  BOOST_TEST_REQUIRE(p->jobs.size() == 3U);
  BOOST_TEST(p->jobs[2].job_id == p->id + "-2");
  BOOST_TEST(p->jobs[0].seed == 9U);
  BOOST_TEST(p->jobs[1].seed != 9U);
  BOOST_TEST(p->jobs[1].seed != p->jobs[2].seed);
  BOOST_TEST(p->jobs[1].seed == chat(R"(,"seed":9,"n":2)")->jobs[1].seed);
  BOOST_TEST(p->jobs[1].seed != chat(R"(,"seed":10,"n":2)")->jobs[1].seed);
  BOOST_TEST(p->jobs[1].prompt == p->jobs[0].prompt, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(variables_that_the_template_reads) {
  use("{% if enable_thinking is false %}no{% endif %}{{ extra }}");
  const auto p = chat(R"(,"enable_thinking":false,"chat_template_kwargs":{"extra":"x"})");
  BOOST_TEST_REQUIRE(p.has_value());
  BOOST_TEST(tokenizer.decode(p->jobs[0].prompt, true) == "nox");
  const auto other = chat(R"(,"reasoning_effort":"low")");
  BOOST_TEST_REQUIRE(!other.has_value());
  BOOST_TEST(other.error().param == "reasoning_effort");
}

BOOST_AUTO_TEST_CASE(what_a_template_refuses_is_the_message_s_fault) {
  use("{{ raise_exception('roles must alternate') }}");
  BOOST_TEST(chat().error().param == "messages");
  BOOST_TEST(chat().error().message.find("roles must alternate") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_template_bomb_of_the_request_ends_in_time) {
  const auto begun = std::chrono::steady_clock::now();
  for (const char* bomb :
       {R"({% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %})",
        R"({% macro f() %}{{ f() }}{% endmacro %}{{ f() }})", R"({{ 'x' * 999999999 }})", R"({% for %})"}) {
    const auto p = chat(std::string(R"(,"chat_template":")") + bomb + "\"");
    BOOST_TEST_REQUIRE(!p.has_value(), bomb);
    BOOST_TEST((p.error().code == errc::invalid_request));
    BOOST_TEST(p.error().param == "chat_template");
  }
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 20s));
}

BOOST_AUTO_TEST_CASE(a_model_without_a_template_takes_no_chats) {
  format.reset();
  BOOST_TEST(chat().error().param == "messages");
  request.body = R"({"prompt":"abc"})";
  BOOST_TEST(prepare(completion_kind::text).has_value());
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_with_the_request_s_own_names) {
  const auto too_many = chat(R"(,"max_completion_tokens":98)");
  BOOST_TEST((too_many.error().code == errc::context_length_exceeded));
  BOOST_TEST(too_many.error().param == "max_completion_tokens");
  lengths.context_tokens = 3;
  BOOST_TEST(chat().error().param == "messages");
  lengths.context_tokens = 100;
  lengths.prompt_chars_max = 2;
  BOOST_TEST(chat().error().param == "messages");
}

BOOST_AUTO_TEST_CASE(prompts_of_tokens_are_taken_as_they_are) {
  request.body = R"({"prompt":[97,256,98]})";
  const auto p = prepare(completion_kind::text);
  BOOST_TEST_REQUIRE(p.has_value());
  BOOST_TEST(p->id.starts_with("cmpl-"));
  BOOST_TEST(p->jobs[0].prompt == (std::vector<engine::token_id>{97, 256, 98}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(deadlines_hold_here_too) {
  request.deadline = "2025-10-03T20:00:10Z";
  BOOST_TEST((chat()->jobs[0].deadline == begin + 10s));
  request.deadline = "2025-10-03T19:00:10Z";
  BOOST_TEST((chat().error().code == errc::inference_timeout));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
