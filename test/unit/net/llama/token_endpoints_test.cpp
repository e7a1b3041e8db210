#include "net/llama/token_endpoints.hpp"

#include <boost/test/unit_test.hpp>

#include "engine/conversation/chat_format.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

struct fixture {
  fixture() {
    lengths.context_tokens = 3;
    served.model_name = "served";
    lengths.prompt_chars_max = 100;
    short_lengths = lengths;
    short_lengths.prompt_chars_max = 2;
  }
  completion_context with(const request_limits& limits) const {
    completion_limits out{limits, served};
    out.vocab = letters.vocab_size();
    return {out, letters, &format, nullptr};
  }
  const test::letter_tokenizer letters;
  const engine::chat_format format = engine::chat_format::make(
                                         "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{% "
                                         "if add_generation_prompt %}>{% endif %}",
                                         {{"bos_token", ""}})
                                         .value();
  engine::worker_identity served;
  request_limits lengths, short_lengths;
  const completion_context context = with(lengths);
  const completion_context small = with(short_lengths);
};

BOOST_FIXTURE_TEST_SUITE(token_endpoints, fixture)

BOOST_AUTO_TEST_CASE(text_to_tokens_and_back) {
  BOOST_TEST(answer_tokenize(R"({"content":"ab"})", small).body == R"({"tokens":[97,98],"count":2})");
  BOOST_TEST(answer_tokenize(R"({"content":"abc"})", small).status == 400U);
  BOOST_TEST(answer_tokenize(R"({"content":""})", context).body == R"({"tokens":[],"count":0})");
  BOOST_TEST(
      answer_tokenize(R"({"content":"a\u00e9","with_pieces":true})", context).body ==
      R"({"tokens":[{"id":97,"piece":"a"},{"id":195,"piece":[195]},{"id":169,"piece":[169]}],"count":3})");
  BOOST_TEST(answer_detokenize(R"({"tokens":[97,195,169]})", small).body ==
             "{\"content\":\"a\xC3\xA9\",\"prompt\":\"a\xC3\xA9\"}");
  BOOST_TEST(answer_detokenize(R"({"tokens":[195]})", small).body ==
             "{\"content\":\"\xEF\xBF\xBD\",\"prompt\":\"\xEF\xBF\xBD\"}");
  for (const char* bad :
       {"{}", R"({"content":1})", R"({"content":"x","other":1})", R"({"content":"x","with_pieces":1})"}) {
    BOOST_TEST(answer_tokenize(bad, context).status == 400U, bad);
  }
  for (const char* bad : {"{}", R"({"tokens":"x"})", R"({"tokens":[257]})", R"({"tokens":[-1]})",
                          R"({"tokens":[[1]]})", R"({"tokens":[1],"x":1})"}) {
    BOOST_TEST(answer_detokenize(bad, small).status == 400U, bad);
  }
  const reply refused = answer_detokenize(R"({"tokens":[97,97,97,97]})", small);
  BOOST_TEST(refused.status == 400U);
  BOOST_TEST(refused.body.find("'tokens' may have 3 tokens, which is what a context holds, it has 4") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(text_to_tokens_in_the_words_of_vllm) {
  BOOST_TEST(answer_tokenize(R"({"model":"served","prompt":"ab"})", context).body ==
             R"({"count":2,"max_model_len":3,"tokens":[97,98],"token_strs":null})");
  BOOST_TEST(
      answer_tokenize(R"({"prompt":"a\u00e9","add_special_tokens":false,"return_token_strs":true})", context)
          .body ==
      "{\"count\":3,\"max_model_len\":3,\"tokens\":[97,195,169],\"token_strs\":[\"a\","
      "\"\xEF\xBF\xBD\",\"\xEF\xBF\xBD\"]}");
  BOOST_TEST(answer_tokenize(R"({"model":"other","prompt":"ab"})", context).status == 404U);
  for (const char* bad :
       {R"({"prompt":1})", R"({"prompt":"x","content":"y"})", R"({"prompt":"x","with_pieces":true})",
        R"({"prompt":"x","add_special_tokens":1})", R"({"prompt":null})"}) {
    BOOST_TEST(answer_tokenize(bad, context).status == 400U, bad);
  }
}

BOOST_AUTO_TEST_CASE(messages_are_rendered_and_never_quickly) {
  const std::string_view chat = R"({"messages":[{"role":"user","content":"a"}]})";
  BOOST_TEST(!answer_tokenize_quickly(chat, context).has_value());
  BOOST_TEST(answer_tokenize_quickly(R"({"prompt":"ab"})", context).has_value());
  BOOST_TEST(answer_tokenize(chat, context).body.starts_with(R"({"count":8,"max_model_len":3,)"));
  BOOST_TEST(answer_tokenize(R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})",
                             context)
                 .body.starts_with(R"({"count":7,)"));
  BOOST_TEST(answer_tokenize(R"({"messages":[]})", context).status == 400U);
  BOOST_TEST(
      answer_tokenize(R"({"messages":[{"role":"user","content":"a"}],"content":"x"})", context).status ==
      400U);
}

BOOST_AUTO_TEST_CASE(a_template_is_applied_and_nothing_computed) {
  BOOST_TEST(answer_apply_template(R"({"messages":[{"role":"user","content":"hi"}]})", context).body ==
             R"({"prompt":"user:hi;>"})");
  BOOST_TEST(answer_apply_template(
                 R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false})", context)
                 .body == R"({"prompt":"user:hi;"})");
  for (const char* bad : {"{}", R"({"messages":"hi"})", R"({"messages":[],"x":1})",
                          R"({"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":2})"}) {
    BOOST_TEST(answer_apply_template(bad, context).status == 400U, bad);
  }
  const completion_context bare{context.limits, letters, nullptr, nullptr};
  BOOST_TEST(answer_apply_template(R"({"messages":[{"role":"user","content":"hi"}]})", bare).status == 400U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
