// Tools for templates that read none: what the prompt says of them, and how the answer is kept to the form.
#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>

#include "engine/conversation/generic_messages.hpp"
#include "engine/grammar/grammar.hpp"
#include "net/completion/prepare_completion.hpp"
#include "test/unit/jinja/render_case.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

const std::string tool = R"({"type":"function","function":{"name":"look","parameters":{"type":"object",)"
                         R"("properties":{"at":{"type":"string"}},"required":["at"]}}})";
const std::string other = R"({"type":"function","function":{"name":"stop"}})";
const std::string both = ",\"tools\":[" + tool + "," + other + "]";

struct generic_fixture {
  generic_fixture() {
    lengths.context_tokens = 4'000;
    tokens = engine::grammar::make_token_table(letters, letters.vocab_size());
    use("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[a]{% "
        "endif %}");
  }
  void use(std::string_view text) { format.emplace(engine::chat_format::make(text, {}).value()); }
  engine::result<prepared_completion> ask(const std::string& messages, const std::string& more) {
    request.body = "{\"messages\":[" + messages + "]" + more + "}";
    completion_limits limits{lengths, served};
    limits.vocab = 257;
    return prepare_completion(request, form_of(completion_kind::chat), {limits, letters, &*format, tokens},
                              {});
  }
  prepared_completion asked(const std::string& messages, const std::string& more) {
    auto out = ask(messages, more);
    BOOST_TEST_REQUIRE(out.has_value(), (out ? "" : out.error().message));
    return std::move(*out);
  }
  std::string prompt(const std::string& messages, const std::string& more = both) {
    return letters.decode(asked(messages, more).jobs[0].prompt, true);
  }

  test::letter_tokenizer letters;
  request_limits lengths;
  engine::worker_identity served;
  std::optional<engine::chat_format> format;
  http_request request;
  std::shared_ptr<const engine::grammar::token_table> tokens;
};

struct chat_letters final : test::letter_tokenizer {
  void append_bytes(engine::token_id token, std::string& out, bool special) const override {
    if (token == 256 && special) out += "<|im_end|>";
    letter_tokenizer::append_bytes(token, out, special);
  }
};

const std::string user = R"({"role":"user","content":"Hi"})";
const std::string called =
    R"({"role":"assistant","content":null,"tool_calls":[)"
    R"({"id":"1","type":"function","function":{"name":"look","arguments":"{\"at\":  \"n\"}"}},)"
    R"({"id":"2","type":"function","function":{"name":"stop","arguments":"{}"}}]})";
const std::string results = R"({"role":"tool","tool_call_id":"1","content":"a \"sun\""},)"
                            R"({"role":"tool","tool_call_id":"2","content":"ok"})";

BOOST_FIXTURE_TEST_SUITE(generic_tools, generic_fixture)

BOOST_AUTO_TEST_CASE(the_system_message_tells_of_them) {
  const std::string alone = prompt(user);
  BOOST_TEST(alone.starts_with("[system]You can call any of the following tools"), alone);
  BOOST_TEST(alone.find(tool + "\n" + other + "\n") != std::string::npos, alone);
  BOOST_TEST(alone.find("{\"tool_calls\": [{\"name\": ") != std::string::npos, alone);
  BOOST_TEST(alone.ends_with("{\"response\": \"TEXT\"}[user]Hi[a]"), alone);
  const std::string behind = prompt(R"({"role":"system","content":"Be brief."},)" + user);
  BOOST_TEST(behind.starts_with("[system]Be brief.\n\nYou can call any"), behind);
  const std::string one = prompt(user, both + ",\"parallel_tool_calls\":false");
  BOOST_TEST(one.find("{\"tool_call\": {\"name\": ") != std::string::npos, one);
  BOOST_TEST(prompt(user, both + ",\"tool_choice\":\"none\"") == "[user]Hi[a]");
  BOOST_TEST(prompt(user, "") == "[user]Hi[a]");
}

BOOST_AUTO_TEST_CASE(past_calls_are_as_the_model_wrote_them_and_results_the_user_s) {
  const std::string calls =
      R"({"tool_calls": [{"name": "look", "arguments": {"at":  "n"}}, {"name": "stop", "arguments": {}}]})";
  const std::string told = R"([user]{"tool_response": {"tool": "look", "content": "a \"sun\""}})"
                           "\n"
                           R"({"tool_response": {"tool": "stop", "content": "ok"}})";
  const std::string history = user + "," + called + "," + results;
  const std::string got = prompt(history);
  BOOST_TEST(got.ends_with("[user]Hi[assistant]" + calls + told + "[a]"), got);
  // Without tools to call the same, where the template shows no calls.
  BOOST_TEST(prompt(history, "") == "[user]Hi[assistant]" + calls + told + "[a]");
  // Turns alternate.
  BOOST_TEST(prompt(history + "," + user).ends_with(told + "\nHi[a]"));
  const std::string answered = prompt(history + R"(,{"role":"assistant","content":"It is \"so\"."},)" + user);
  BOOST_TEST(answered.ends_with(told + R"([assistant]{"response": "It is \"so\"."}[user]Hi[a])"), answered);
  BOOST_TEST(prompt(user + R"(,{"role":"assistant","content":"So."},)" + user, "") ==
             "[user]Hi[assistant]So.[user]Hi[a]");
}

BOOST_AUTO_TEST_CASE(calls_of_every_shape_in_the_history) {
  const auto shown = [&](const std::string& message, const std::string& more = both) {
    const std::string text = prompt(user + "," + message + "," + user, more);
    const std::size_t from = text.find("[assistant]") + 11;
    return text.substr(from, text.find("[user]", from) - from);
  };
  const auto call = [](const std::string& content, const std::string& arguments) {
    return R"({"role":"assistant","content":)" + content +
           R"(,"tool_calls":[{"id":"1","type":"function","function":{"name":"look","arguments":)" +
           arguments + "}}]}";
  };
  const std::string one = ",\"parallel_tool_calls\":false";
  BOOST_TEST(shown(call("null", R"("{\"at\":1}")"), both + one) ==
             R"({"tool_call": {"name": "look", "arguments": {"at":1}}})");
  BOOST_TEST(shown(call(R"("I look.")", R"({"at":1})")) ==
             R"({"response": "I look.", "tool_calls": [{"name": "look", "arguments": {"at":1}}]})");
  // What max_tokens cut stays what it was; what is no object is a text.
  BOOST_TEST(shown(call("null", R"("{\"at\": \"n")")) ==
             R"({"tool_calls": [{"name": "look", "arguments": {"at": "n}]})");
  BOOST_TEST(shown(call("null", R"("north")")) ==
             R"({"tool_calls": [{"name": "look", "arguments": "north"}]})");
}

BOOST_AUTO_TEST_CASE(the_output_is_kept_to_the_form) {
  const auto grammar_of = [&](const std::string& more) {
    auto p = asked(user, both + more);
    BOOST_TEST((p.reader.format.calls == engine::call_format::generic));
    BOOST_TEST(!p.reader.parsing.lenient);
    BOOST_TEST_REQUIRE(p.grammar.has_value());
    BOOST_TEST(compile_grammar(*p.grammar).has_value(), more);
    return p.grammar->constraints;
  };
  BOOST_TEST((grammar_of("").kind == constraint_kind::open));
  BOOST_TEST((grammar_of(",\"tool_choice\":\"required\"").kind == constraint_kind::calls));
  const auto named = grammar_of(R"(,"tool_choice":{"type":"function","function":{"name":"stop"}})");
  BOOST_TEST((named.kind == constraint_kind::calls && named.function == "stop"));
  const std::string object = R"(,"response_format":{"type":"json_object"})";
  BOOST_TEST((grammar_of(object).kind == constraint_kind::json));
  BOOST_TEST(asked(user, both + object).reader.parsing.json_answer);
  BOOST_TEST(!asked(user, both).reader.parsing.json_answer);
  const auto none = asked(user, both + ",\"tool_choice\":\"none\"");
  BOOST_TEST((!none.grammar && !none.reader.separates()));
  tokens = nullptr;  // nothing could be enforced
  BOOST_TEST(ask(user, both).error().param == "tools");
}

// Under auto a schema that cannot be enforced is the model's to follow, unless it is strict; demanded it is
// not.
BOOST_AUTO_TEST_CASE(parameters_are_enforced_where_they_can_be) {
  const auto with = [&](const std::string& more, const std::string& choice) {
    const std::string odd = R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"not":{}})" +
                            more + "}}]" + choice;
    return compile_grammar(*asked(user, odd).grammar);
  };
  BOOST_TEST(with("", "").has_value());
  BOOST_TEST(with(",\"strict\":true", "").error().param == "tools");
  BOOST_TEST(with("", ",\"tool_choice\":\"required\"").error().param == "tools");
  const auto of = [&](const std::string& type) {
    return asked(user, R"(,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object",)"
                       R"("properties":{"a":{"type":")" +
                           type + R"("}}}}}])")
        .grammar_key;
  };
  BOOST_TEST(of("string") != of("integer"));
}

BOOST_AUTO_TEST_CASE(a_continued_answer_goes_on_within_its_response) {
  const std::string history = user + R"(,{"role":"assistant","content":"It is \"so"})";
  const std::string more = both + ",\"continue_final_message\":true";
  const auto p = asked(history, more);
  BOOST_TEST(
      letters.decode(p.jobs[0].prompt, true).ends_with("[user]Hi[assistant]{\"response\": \"It is \\\"so"));
  BOOST_TEST(p.reader.parsing.in_answer);
  BOOST_TEST_REQUIRE(p.grammar.has_value());
  BOOST_TEST(p.grammar->frame.in_answer);
  BOOST_TEST(p.grammar_key != asked(user, both).grammar_key);
  BOOST_TEST(ask(history, more + ",\"tool_choice\":\"required\"").error().param == "tool_choice");
  BOOST_TEST(ask(history, more + R"(,"response_format":{"type":"json_object"})").error().param ==
             "response_format");
}

BOOST_AUTO_TEST_CASE(a_system_message_that_the_template_leaves_out_or_refuses) {
  for (const std::string role :
       {"{% if m.role != 'system' %}",
        "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{% if true %}"}) {
    use("{% for m in messages %}" + role + "[{{ m.role }}]{{ m.content }}{% endif %}{% endfor %}");
    const std::string got = prompt(user);
    BOOST_TEST(got.starts_with("[user]You can call any"), got);
    BOOST_TEST(got.ends_with("\nHi"), got);
  }
}

BOOST_AUTO_TEST_CASE(reasoning_stands_before_the_form) {
  use("{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}<think>\n");
  const auto p = asked(user, both + ",\"reasoning_format\":\"none\"");
  BOOST_TEST((p.reader.format.think && p.reader.parsing.in_reasoning && p.grammar->frame.in_reasoning));
}

// Every published template that reads no tools, with a whole conversation.
BOOST_AUTO_TEST_CASE(published_templates_take_the_form) {
  lengths.context_tokens = 20'000;
  int told = 0;
  const auto expected = json::parse(orcd::test::read_data("expected.json"));
  for (const auto& item : expected.as_object()) {
    const std::string name(item.key());
    format.emplace(engine::chat_format::make(orcd::test::read_data("templates/" + name + ".jinja"),
                                             {{"bos_token", "<s>"}, {"eos_token", "</s>"}})
                       .value());
    if (!format->tells_tools()) continue;
    ++told;
    const std::string text = prompt(user + "," + called + "," + results + "," + user);
    BOOST_TEST(engine::has_generic_instructions(text), name << ": " << text);
    BOOST_TEST(
        text.find(R"({"tool_calls": [{"name": "look", "arguments": {"at":  "n"}})") != std::string::npos,
        name << ": " << text);
    BOOST_TEST(text.find(R"({"tool_response": {"tool": "stop", "content": "ok"}})") != std::string::npos,
               name << ": " << text);
  }
  BOOST_TEST(told >= 8);
}

BOOST_AUTO_TEST_CASE(chatml_stands_in_for_a_template) {
  format.emplace(engine::chat_format::chatml({}, letters));
  BOOST_TEST((format->stands_in() && format->output().text_end));
  const auto p = asked(user, "");
  BOOST_TEST(letters.decode(p.jobs[0].prompt, true) ==
             "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  BOOST_TEST((p.reader.separates() && p.reader.format.text_end));
  BOOST_TEST(asked(user, both).reader.format.text_end);

  // Of a vocabulary whose end is <|im_end|>, that ends an answer.
  format.emplace(engine::chat_format::chatml({}, chat_letters()));
  BOOST_TEST(!format->output().text_end);
  BOOST_TEST(!asked(user, "").reader.separates());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
