#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "net/jobs/job_execution.hpp"
#include "net/openai/completion_answer.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;

completion_identity identity_of(completion_kind kind, answer_shape shows) {
  completion_identity out;
  out.kind = kind;
  out.shows = shows;
  return out;
}

/// A choice with a prompt of three tokens, of a stream.
struct fixture {
  explicit fixture(completion_identity identity) {
    identity.stream = true;
    identity.choices = 2;
    identity.prompt_tokens = {3};
    identity.now = [this] { return time; };
    const auto answer = std::make_shared<completion_answer>(identity);
    answer->at(1).prompt_tokens = 3;
    execution.emplace(job_execution_config{}, engine::token_stream(letters, {}),
                      make_choice_output(answer, 1, letters));
    execution->started(1, {});
  }
  std::vector<json::object> frames() {
    std::vector<json::object> out;
    std::string text = execution->take_output(time);
    while (text.starts_with("data: ")) {
      const auto end = text.find("\n\n");
      out.push_back(json::parse(text.substr(6, end - 6)).as_object());
      text.erase(0, end + 2);
    }
    BOOST_TEST(text.empty());
    return out;
  }
  engine::steady_time time{1h};
  std::optional<job_execution> execution;
};

BOOST_AUTO_TEST_SUITE(chunk_extras)

BOOST_AUTO_TEST_CASE(progress_has_a_chunk_of_its_choice) {
  fixture f(identity_of(completion_kind::chat, {.progress = true}));
  f.execution->progress({1, 2, 7});
  const auto frames = f.frames();
  BOOST_TEST_REQUIRE(frames.size() == 2U);
  BOOST_TEST(json::serialize(frames[1].at("choices")) ==
             R"([{"index":1,"delta":{},"logprobs":null,"finish_reason":null}])");
  BOOST_TEST(json::serialize(frames[1].at("prompt_progress")) ==
             R"({"total":3,"cache":1,"processed":2,"time_ms":7})");
}

BOOST_AUTO_TEST_CASE(progress_of_a_text_has_an_empty_one) {
  fixture f(identity_of(completion_kind::text, {.progress = true}));
  f.execution->progress({1, 1, 0});
  const auto frames = f.frames();
  BOOST_TEST_REQUIRE(frames.size() == 1U);
  BOOST_TEST(frames[0].at("choices").as_array().at(0).at("text") == json::value(""));
}

BOOST_AUTO_TEST_CASE(what_is_known_counts_in_the_timings_of_chunks) {
  fixture f(identity_of(completion_kind::chat, {.timings = true}));
  f.execution->progress({2, 2, 0});
  f.time += 20ms;
  f.execution->token('x');
  f.time += 5ms;
  f.execution->token('y');
  const auto frames = f.frames();
  BOOST_TEST_REQUIRE(frames.size() == 3U);
  BOOST_TEST(!frames[0].contains("timings"));
  const auto& timings = frames[2].at("timings").as_object();
  BOOST_TEST((timings.at("cache_n") == json::value(2) && timings.at("prompt_n") == json::value(1)));
  BOOST_TEST(timings.at("prompt_ms").to_number<double>() == 20.0);
  BOOST_TEST(timings.at("predicted_ms").to_number<double>() == 5.0);
  BOOST_TEST(!frames[2].contains("prompt_progress"));
}

BOOST_AUTO_TEST_CASE(a_usage_that_is_not_known_yet_is_null_or_absent) {
  for (const bool null : {true, false}) {
    auto identity = identity_of(completion_kind::chat, {});
    identity.include_usage = true;
    identity.null_usage = null;
    fixture f(std::move(identity));
    f.execution->token('x');
    const auto frames = f.frames();
    BOOST_TEST_REQUIRE(frames.size() == 2U);
    for (const auto& frame : frames) BOOST_TEST(frame.contains("usage") == null);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
