// Log probabilities as clients read them.
#include "net/completion/logprob_text.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>

#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

const test::letter_tokenizer letters;

BOOST_AUTO_TEST_SUITE(logprob_texts)

BOOST_AUTO_TEST_CASE(a_token_of_a_text_is_always_in_the_list_beside_it) {
  const auto listed = [&](std::vector<engine::token_logprob> logprobs) {
    std::vector<logprob_entry> entries(1);
    entries[0].logprobs = std::move(logprobs);
    const auto told = json::parse(render_logprobs(completion_kind::text, entries, letters));
    return json::serialize(told.at("top_logprobs"));
  };
  BOOST_TEST(listed({{'a', -2.0F}}) == R"([{"a":-2}])");
  BOOST_TEST(listed({{'a', -2.0F}, {'z', -1.0F}}) == R"([{"z":-1,"a":-2}])");
  BOOST_TEST(listed({{'a', -1.0F}, {'a', -1.0F}, {'z', -2.0F}}) == R"([{"a":-1,"z":-2}])");
}

// As OpenAI's API has it: `top_logprobs` are the most likely tokens, the one that came beside them.
BOOST_AUTO_TEST_CASE(a_token_of_a_chat_is_not) {
  std::vector<logprob_entry> entries(1);
  entries[0].logprobs = {{'a', -2.0F}, {'z', -1.0F}};
  const auto told = json::parse(render_logprobs(completion_kind::chat, entries, letters));
  const auto& list = told.at("content").at(0).at("top_logprobs").as_array();
  BOOST_TEST_REQUIRE(list.size() == 1U);
  BOOST_TEST(list[0].at("token").as_string() == "z");
}

BOOST_AUTO_TEST_CASE(values_of_a_prompt_in_the_form_of_vllm) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<prompt_value> values{{{{'a', -0.5F}, {'a', -0.5F}, {'z', -1.5F}}, 1},
                                         {{{'b', -7.0F}, {'a', -0.5F}, {'z', -1.5F}}, 90},
                                         {{{'c', never}}, 0}};
  BOOST_TEST(render_prompt_values(values, letters) ==
             R"([null,{"97":{"logprob":-0.5,"rank":1,"decoded_token":"a"},)"
             R"("122":{"logprob":-1.5,"rank":2,"decoded_token":"z"}},)"
             R"({"98":{"logprob":-7,"rank":90,"decoded_token":"b"},)"
             R"("97":{"logprob":-0.5,"rank":1,"decoded_token":"a"},)"
             R"("122":{"logprob":-1.5,"rank":2,"decoded_token":"z"}},)"
             R"({"99":{"logprob":-9999,"rank":null,"decoded_token":"c"}}])");
  BOOST_TEST(render_prompt_values({}, letters) == "[null]");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
