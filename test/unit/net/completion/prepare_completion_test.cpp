#include "net/completion/prepare_completion.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/chat/argument_types.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/sampling/dry.hpp"
#include "net/completion/prompt_values.hpp"
#include "test/unit/net/completion/bos_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using namespace std::chrono_literals;

const engine::steady_time begin{1h};
const std::chrono::system_clock::time_point wall{std::chrono::milliseconds(1'759'521'600'000)};

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
    completion_limits limits{lengths, served};
    limits.vocab = 257;
    limits.request_template = true;
    limits.parse_special_in_chat = parse_special;
    limits.strict_fields = strict;
    limits.system_tokens_min = system_tokens_min;
    return prepare_completion(request, form_of(kind),
                              {limits, tokenizer, format ? &*format : nullptr, tokens}, wall);
  }

  request_limits lengths;
  engine::worker_identity served;
  std::uint32_t system_tokens_min = 1;
  bool parse_special = false;
  bool strict = false;
  test::bos_tokenizer tokenizer;
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
  BOOST_TEST(p->facts.prompt_chars == 3U);
  BOOST_TEST(p->facts.prompt_digest.starts_with("sha256:"));
}

BOOST_AUTO_TEST_CASE(a_template_that_prints_bos_gets_no_second_one) {
  use("{{ bos_token }}{{ messages[0].content }}");
  BOOST_TEST(chat()->jobs[0].prompt == (std::vector<engine::token_id>{256, 'a', 'b', 'c'}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_special_token_in_a_message_is_text) {
  request.body = R"({"messages":[{"role":"user","content":"<s>a"}]})";
  BOOST_TEST(prepare(completion_kind::chat)->jobs[0].prompt ==
                 (std::vector<engine::token_id>{256, '<', 's', '>', 'a'}),
             boost::test_tools::per_element());
  use("{{ bos_token }}{{ messages[0].content }}");
  BOOST_TEST(prepare(completion_kind::chat)->jobs[0].prompt ==
                 (std::vector<engine::token_id>{256, '<', 's', '>', 'a'}),
             boost::test_tools::per_element());
  parse_special = true;
  use("{{ messages[0].content }}");
  BOOST_TEST(prepare(completion_kind::chat)->jobs[0].prompt == (std::vector<engine::token_id>{256, 'a'}),
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
  BOOST_TEST((p->reader.format.calls == engine::call_format::hermes));
  const auto none = chat(",\"tool_choice\":\"none\",\"tools\":[" + tool + "]");
  BOOST_TEST(tokenizer.decode(none->jobs[0].prompt, true) == "<tool_call>");
  BOOST_TEST(!none->reader.separates());
}

BOOST_AUTO_TEST_CASE(types_of_arguments_are_known_where_there_are_tools) {
  const std::string typed = R"({"type":"function","function":{"name":"f","parameters":{"type":"object",
    "properties":{"a":{"type":"string"}}}}})";
  use("{% if tools %}x{% endif %}<tool_call><function=>");
  const auto p = chat(",\"tools\":[" + typed + "]");
  BOOST_TEST((p->reader.format.calls == engine::call_format::qwen_coder));
  BOOST_TEST_REQUIRE(p->reader.parsing.types != nullptr);
  BOOST_TEST(p->reader.parsing.types->of("f", "a").is_text());
  BOOST_TEST(!p->reader.parsing.types->of("f", "b").is_text());
  BOOST_TEST(chat()->reader.parsing.types == nullptr);
}

BOOST_AUTO_TEST_CASE(texts_become_the_tokens_that_they_have) {
  const auto p =
      chat(R"(,"logit_bias":[["ab",2],["b",1.5],[97,-4],["cd",false]],"bad_words":["hi","  x","\n"])");
  BOOST_TEST_REQUIRE(p.has_value());
  const auto& biases = p->jobs[0].sampling.biases;
  BOOST_TEST_REQUIRE(biases.size() == 2U);
  BOOST_TEST((biases[0].token == 'a' && biases[0].bias == -2.0F));
  BOOST_TEST((biases[1].token == 'b' && biases[1].bias == 3.5F));
  using ids = std::vector<engine::token_id>;
  BOOST_TEST(p->asked.banned_tokens == (ids{'c', 'd'}), boost::test_tools::per_element());
  // Each with a space in front and without, whether or not it was written with one.
  const std::vector<ids> rows{{'\n'}, {' ', '\n'}, {' ', 'h', 'i'}, {' ', 'x'}, {'h', 'i'}, {'x'}};
  BOOST_TEST((p->asked.banned_rows == rows));
  std::string many = R"(,"logit_bias":[["a",1])";
  for (int i = 0; i < 5; ++i) many += ",[\"" + std::string(250, 'a') + "\",false]";
  BOOST_TEST(chat(many + "]").error().param == "logit_bias");
}

BOOST_AUTO_TEST_CASE(breakers_become_tokens_where_they_count) {
  const auto own = chat(R"(,"dry_multiplier":1,"dry_sequence_breakers":["ab"])");
  BOOST_TEST_REQUIRE(own.has_value());
  BOOST_TEST_REQUIRE(own->jobs[0].sampling.breakers != nullptr);
  const std::vector<std::pair<engine::token_id, std::vector<engine::token_id>>> rows{{'a', {'b'}}};
  BOOST_TEST((own->jobs[0].sampling.breakers->rows == rows));
  const auto usual = chat(R"(,"dry_multiplier":1)");
  BOOST_TEST(usual->jobs[0].sampling.breakers->rows.size() == 4U);
  BOOST_TEST(chat(R"(,"dry_multiplier":0,"dry_sequence_breakers":["ab"])")->jobs[0].sampling.breakers ==
             nullptr);
}

BOOST_AUTO_TEST_CASE(what_is_to_be_enforced_needs_a_token_table) {
  use("{% if tools %}{{ tools }}{% endif %}<tool_call>");
  const std::string forced = ",\"tool_choice\":\"required\",\"tools\":[" + tool + "]";
  BOOST_TEST(chat(forced).error().param == "tool_choice");
  BOOST_TEST(chat(R"(,"response_format":{"type":"json_object"})").error().param == "response_format");
  tokens = engine::grammar::make_token_table(tokenizer, tokenizer.vocab_size());
  BOOST_TEST_REQUIRE(chat(forced)->grammar.has_value());
  BOOST_TEST((chat(forced)->grammar->constraints.kind == constraint_kind::calls));
  // Calls that a grammar does not know of would not be what it promises.
  BOOST_TEST(!chat(forced)->reader.parsing.lenient);
  BOOST_TEST(chat(",\"tools\":[" + tool + "]")->reader.parsing.lenient);
  BOOST_TEST((chat(forced)->grammar->frame.format.calls == engine::call_format::hermes));
  BOOST_TEST(chat(R"(,"response_format":{"type":"json_object"})")->grammar.has_value());
  BOOST_TEST(!chat()->grammar.has_value());
}

BOOST_AUTO_TEST_CASE(where_the_output_begins) {
  tokens = engine::grammar::make_token_table(tokenizer, tokenizer.vocab_size());
  const std::string object = R"(,"response_format":{"type":"json_object"})";
  use("{{ messages[0].content }}<think>\n");
  BOOST_TEST(chat()->reader.parsing.in_reasoning);
  BOOST_TEST(chat(object)->grammar->frame.in_reasoning);
  use("{{ messages[0].content }}<think>\n\n</think>\n\n");
  BOOST_TEST(!chat()->reader.parsing.in_reasoning);
  BOOST_TEST(!chat(object)->grammar->frame.may_reason);
  use("{{ messages[0].content }}<|START_THINKING|>");
  BOOST_TEST(chat()->reader.parsing.in_reasoning);
  use("{{ messages[0].content }}<seed:think>x</seed:think>");
  BOOST_TEST(!chat(object)->grammar->frame.may_reason);
}

BOOST_AUTO_TEST_CASE(stop_strings_go_to_what_parts_the_output) {
  BOOST_TEST(chat(R"(,"stop":"x")")->reader.stop.empty());
  use("{{ messages[0].content }}</think>");
  BOOST_TEST(chat(R"(,"stop":"x")")->reader.stop.size() == 1U);
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
  // An effort tells such a template whether to reason at all.
  BOOST_TEST(tokenizer.decode(chat(R"(,"reasoning_effort":"none")")->jobs[0].prompt, true) == "no");
  BOOST_TEST(tokenizer.decode(chat(R"(,"reasoning_effort":"low","enable_thinking":false)")->jobs[0].prompt,
                              true) == "no");
  BOOST_TEST(tokenizer.decode(
                 chat(R"(,"reasoning_effort":"low","chat_template_kwargs":{"extra":"y"})")->jobs[0].prompt,
                 true) == "y");
}

BOOST_AUTO_TEST_CASE(variables_that_the_template_does_not_read_are_left_or_refused) {
  use("{{ messages[0].content }}");
  const char* const asked = R"(,"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false})";
  BOOST_TEST_REQUIRE(chat(asked).has_value());
  BOOST_TEST(chat(R"(,"documents":[{"text":"x"}])").error().param == "documents");
  strict = true;
  BOOST_TEST(chat(asked).error().param == "reasoning_effort");
}

BOOST_AUTO_TEST_CASE(a_prompt_is_cut_only_where_the_request_says_so) {
  lengths.context_tokens = 20;
  const auto kept = [&](const std::string& more) {
    request.body = R"({"prompt":"abcdefghijklmnopqrstuvwxyz")" + more + "}";
    const auto p = prepare(completion_kind::text);
    BOOST_TEST_REQUIRE(p.has_value(), more << (p ? "" : p.error().message));
    return tokenizer.decode(p->jobs[0].prompt, true);
  };
  BOOST_TEST(kept(R"(,"truncate_prompt_tokens":3)") == "xyz");
  BOOST_TEST(kept(R"(,"truncate_prompt_tokens":3,"truncation_side":"right","add_special_tokens":false)") ==
             "abc");
  BOOST_TEST(kept(R"(,"truncate_prompt_tokens":-1,"max_tokens":11)") == "qrstuvwxyz");
  request.body = R"({"prompt":"abcdefghijklmnopqrstuvwxyz","truncate_prompt_tokens":21})";
  BOOST_TEST((prepare(completion_kind::text).error().code == engine::errc::context_length_exceeded));
}

BOOST_AUTO_TEST_CASE(what_a_job_is_told_of_single_tokens) {
  const auto p = chat(R"(,"stop_token_ids":[9,3,9],"include_stop_str_in_output":true)");
  BOOST_TEST_REQUIRE(p.has_value());
  BOOST_TEST(p->jobs[0].stop_tokens == (std::vector<engine::token_id>{3, 9}),
             boost::test_tools::per_element());
  BOOST_TEST(p->jobs[0].keep_stop_token);
  BOOST_TEST(p->reader.keep_stop);
}

BOOST_AUTO_TEST_CASE(reasoning_that_is_not_separated) {
  use("{% if x %}<think></think>{% endif %}{{ messages[0].content }}");
  BOOST_TEST(chat()->reader.separates());
  BOOST_TEST(!chat(R"(,"reasoning_format":"none")")->reader.separates());
  BOOST_TEST(!chat(R"(,"separate_reasoning":false)")->reader.separates());
}

BOOST_AUTO_TEST_CASE(an_answer_that_continues_the_last_message) {
  use("{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}");
  const auto two = [&](const std::string& more) {
    request.body =
        R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"I say "}])" + more + "}";
    return prepare(completion_kind::chat);
  };
  const auto prompt = [&](const std::string& more) {
    const auto p = two(more);
    BOOST_TEST_REQUIRE(p.has_value(), more << (p ? "" : p.error().message));
    return tokenizer.decode(p->jobs[0].prompt, true);
  };
  const std::string begun = "<user>u</user><assistant>I say ";
  BOOST_TEST(prompt(R"(,"continue_final_message":true)") == begun);
  BOOST_TEST(prompt(R"(,"continue_final_message":true,"add_generation_prompt":false)") == begun);
  BOOST_TEST(prompt("") == begun + "</assistant><assistant>");
  BOOST_TEST(prompt(R"(,"add_generation_prompt":false)") == begun + "</assistant>");
  BOOST_TEST(two(R"(,"continue_final_message":true,"add_generation_prompt":true)").error().param ==
             "continue_final_message");
  BOOST_TEST(chat(R"(,"continue_final_message":true)").error().param == "continue_final_message");
  use("{{ messages[0].content }}");
  BOOST_TEST(two(R"(,"continue_final_message":true)").error().param == "continue_final_message");
}

BOOST_AUTO_TEST_CASE(only_the_marks_of_the_format_begin_reasoning) {
  const auto in_reasoning = [&](const std::string& user, const std::string& assistant) {
    request.body = R"({"continue_final_message":true,"messages":[{"role":"user","content":")" + user +
                   R"("},{"role":"assistant","content":")" + assistant + R"("}]})";
    const auto p = prepare(completion_kind::chat);
    BOOST_TEST_REQUIRE(p.has_value());
    return p->reader.parsing.in_reasoning;
  };
  const std::string messages = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
  use(messages + "{% if x %}<think></think>{% endif %}");
  BOOST_TEST(!in_reasoning("what is [THINK]?", "I say "));
  BOOST_TEST(!in_reasoning("what is <seed:think>?", "<think>Hm</think>I say "));
  BOOST_TEST(!in_reasoning("what is <think>?", "I say "));
  BOOST_TEST(in_reasoning("u", "<think>I say "));
  BOOST_TEST(in_reasoning("what is </think>?", "I say <think>"));
  use("{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think>{% endif %}{{ m.content }}"
      "{% endfor %}");
  BOOST_TEST(in_reasoning("u", "I say "));
  BOOST_TEST(in_reasoning("u", ""));
  BOOST_TEST(!in_reasoning("u", "I say</think> "));
  use(messages);
  BOOST_TEST(!in_reasoning("u", "<think>I say "));
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
  lengths.tokens_out_is_bound = true;
  BOOST_TEST(chat(R"(,"max_completion_tokens":98)")->jobs[0].max_tokens == 97U);
  lengths.context_tokens = 3;
  BOOST_TEST((chat().error().code == errc::context_length_exceeded));
  BOOST_TEST(chat().error().param == "messages");
  BOOST_TEST(chat().error().message.starts_with(
      "This model's maximum context length is 3 tokens. However, your messages resulted in 4 tokens."));
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

BOOST_AUTO_TEST_CASE(ids_and_seeds_follow_from_the_nonce) {
  request.nonce = "one";
  const auto first = chat();
  const auto again = chat();
  request.nonce = "two";
  const auto other = chat();
  BOOST_TEST(again->id == first->id);
  BOOST_TEST(again->jobs[0].seed == first->jobs[0].seed);
  BOOST_TEST(other->id != first->id);
  BOOST_TEST(other->jobs[0].seed != first->jobs[0].seed);
}

BOOST_AUTO_TEST_CASE(deadlines_hold_here_too) {
  request.deadline = "2025-10-03T20:00:10Z";
  BOOST_TEST((chat()->jobs[0].deadline == begin + 10s));
  request.deadline = "2025-10-03T19:00:10Z";
  BOOST_TEST((chat().error().code == errc::inference_timeout));
}

BOOST_AUTO_TEST_CASE(prompts_have_their_choices_in_order_and_each_as_if_alone) {
  request.body = R"({"prompt":["ab",[99],"def"],"n":2,"seed":7,"max_tokens":5})";
  const auto all = prepare(completion_kind::text);
  BOOST_TEST_REQUIRE(all.has_value());
  BOOST_TEST(all->jobs.size() == 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    BOOST_TEST(all->jobs[i].job_id == all->id + "-" + std::to_string(i));
    BOOST_TEST(all->jobs[i].seed == choice_seed(7, static_cast<std::uint32_t>(i % 2)));
    BOOST_TEST(all->jobs[i].score_from == 0U);
  }
  using ids = std::vector<engine::token_id>;
  BOOST_TEST((all->jobs[0].prompt == ids{256, 'a', 'b'} && all->jobs[1].prompt == ids{256, 'a', 'b'}));
  BOOST_TEST((all->jobs[2].prompt == ids{99} && all->jobs[3].prompt == ids{99}));
  BOOST_TEST((all->jobs[4].prompt == ids{256, 'd', 'e', 'f'}));
  BOOST_TEST((all->echoes.size() == 3U && all->echoes[0] == nullptr));
}

BOOST_AUTO_TEST_CASE(an_echo_with_log_probabilities_scores_the_prompt) {
  request.body = R"({"prompt":["ab",[99,98]],"max_tokens":0,"echo":true,"logprobs":2})";
  const auto all = prepare(completion_kind::text);
  BOOST_TEST_REQUIRE(all.has_value());
  for (const auto& job : all->jobs) {
    BOOST_TEST((job.score_from == 1U && job.tell_end && job.logprobs && job.top_logprobs == 2U));
    BOOST_TEST((job.score_top == 2U && !job.score_ranks));
    BOOST_TEST(job.max_tokens == 0U);
  }
  BOOST_TEST(all->jobs[0].events_max() == 3U);
  BOOST_TEST((all->echoes[0]->text == "ab" && all->echoes[0]->first == 256 && all->echoes[0]->logprobs));
  BOOST_TEST((all->echoes[1]->text == "cb" && all->echoes[1]->first == 99));
  request.body = R"({"prompt":"ab","max_tokens":1,"echo":true})";
  const auto plain = prepare(completion_kind::text);
  BOOST_TEST((plain->jobs[0].score_from == 0U && !plain->echoes[0]->logprobs));
}

BOOST_AUTO_TEST_CASE(the_first_choice_of_a_prompt_tells_its_values) {
  request.body = R"({"prompt":["ab",[99,98]],"n":2,"prompt_logprobs":3})";
  const auto all = prepare(completion_kind::text);
  BOOST_TEST_REQUIRE(all.has_value());
  for (std::size_t i = 0; i < 4; ++i) {
    const auto& job = all->jobs[i];
    BOOST_TEST(job.score_from == (i % 2 == 0 ? 1U : 0U));
    BOOST_TEST((job.score_ranks == (i % 2 == 0) && !job.logprobs && !job.tell_end));
    if (job.score_ranks) BOOST_TEST(job.score_top == 3U);
  }
  request.body = R"({"prompt":"ab","prompt_logprobs":1,"echo":true,"logprobs":5,"n":2})";
  const auto both = prepare(completion_kind::text);
  BOOST_TEST((both->jobs[0].score_top == 5U && both->jobs[0].score_ranks && both->jobs[0].tell_end));
  BOOST_TEST((both->jobs[1].score_from == 1U && both->jobs[1].score_top == 5U && !both->jobs[1].score_ranks));
  BOOST_TEST(both->echoes[0]->listed == 5U);
  request.body = R"({"messages":[{"role":"user","content":"a"}],"prompt_logprobs":0})";
  const auto chat = prepare(completion_kind::chat);
  BOOST_TEST_REQUIRE(chat.has_value());
  BOOST_TEST((chat->jobs[0].score_from == 1U && chat->jobs[0].score_top == 0U));
}

BOOST_AUTO_TEST_CASE(values_of_a_prompt_are_bounded) {
  completion_request asked;
  std::uint64_t values = 0;
  BOOST_TEST(add_prompt_values(asked, std::size_t{1} << 40U, values).has_value());
  asked.prompt_logprobs = 20;
  constexpr std::size_t fit = prompt_values_max / 21;
  BOOST_TEST(add_prompt_values(asked, fit, values).has_value());
  const auto refused = add_prompt_values(asked, 1, values);
  BOOST_TEST_REQUIRE(refused.has_error());
  BOOST_TEST(refused.error().param == "prompt_logprobs");
}

BOOST_AUTO_TEST_CASE(a_prompt_of_a_list_that_does_not_fit_is_refused) {
  request.body = R"({"prompt":["ab",")" + std::string(101, 'a') + R"("],"max_tokens":5})";
  BOOST_TEST((prepare(completion_kind::text).error().code == errc::context_length_exceeded));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
