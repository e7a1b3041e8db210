#include "net/llama/llama_answer.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <utility>

#include "net/jobs/job_execution.hpp"
#include "net/llama/llama_request.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::steady_time;
using namespace std::chrono_literals;

const test::letter_tokenizer letters;

struct fixture {
  /// Makes the answer of `jobs` jobs with a prompt of three tokens.
  void make(std::size_t jobs = 1) {
    prepared.asked.prompts.clear();
    for (std::size_t i = 0; i < jobs; ++i) {
      engine::job_request job;
      job.prompt = {'a', 'b', 'c'};
      job.max_tokens = 9;
      job.seed = 5;
      prepared.jobs.push_back(std::move(job));
      prepared.echoes.push_back(std::make_shared<prompt_echo>(prompt_echo{"abc", 'a', false, 0}));
    }
    auto answer = make_llama_answer(prepared, "m", letters, [this] { return time; });
    plan = std::move(answer.plan);
    for (auto& output : answer.outputs) {
      executions.emplace_back(job_execution_config{}, engine::token_stream(letters, prepared.asked.stop),
                              std::move(output));
      executions.back().started(1, {});
      executions.back().progress({1, 1, 0});
    }
  }
  std::string run(std::size_t job, std::string_view text, engine::finish_reason reason) {
    auto& one = executions[job];
    for (const char c : text) {
      const engine::token_id id = static_cast<unsigned char>(c);
      const std::vector<engine::token_logprob> told{{id, -0.5F}, {'z', -1.0F}};
      one.token(id, prepared.asked.logprobs ? std::span(told) : std::span<const engine::token_logprob>());
    }
    engine::end_event end;
    end.reason = reason;
    end.stats.tokens_in = 3;
    end.stats.tokens_cached = 1;
    end.stats.tokens_out = static_cast<std::uint32_t>(text.size());
    end.stats.prefill_ms = 4;
    end.stats.decode_ms = 8;
    one.ended(end, steady_time{1h});
    return one.take_output(steady_time{1h});
  }
  /// The objects of a stream, which has nothing else.
  static std::vector<json::object> frames_of(std::string body) {
    std::vector<json::object> frames;
    while (body.starts_with("data: ")) {
      const auto end = body.find("\n\n");
      frames.push_back(json::parse(body.substr(6, end - 6)).as_object());
      body.erase(0, end + 2);
    }
    BOOST_TEST(body.empty());
    return frames;
  }
  prepared_completion prepared;
  steady_time time{1h};
  answer_plan plan;
  std::vector<job_execution> executions;
};

BOOST_FIXTURE_TEST_SUITE(llama_answers, fixture)

BOOST_AUTO_TEST_CASE(a_whole_answer) {
  prepared.asked.token_ids = true;
  make();
  run(0, "x\ny", engine::finish_reason::length);
  const auto body = json::parse(plan.body()).as_object();
  BOOST_TEST(body.at("content") == json::value("x\ny"));
  BOOST_TEST(body.at("tokens") == json::value(json::array{120, 10, 121}));
  BOOST_TEST((body.at("stop") == json::value(true) && body.at("stop_type") == json::value("limit")));
  BOOST_TEST(
      (body.at("tokens_predicted") == json::value(3) && body.at("tokens_evaluated") == json::value(3)));
  BOOST_TEST((body.at("tokens_cached") == json::value(1) && body.at("has_new_line") == json::value(true)));
  BOOST_TEST((body.at("prompt") == json::value("abc") && body.at("truncated") == json::value(false)));
  BOOST_TEST(body.at("generation_settings").at("n_predict") == json::value(9));
  const auto& settings = body.at("generation_settings");
  BOOST_TEST(
      (settings.at("typical_p") == json::value(1) && settings.at("xtc_threshold") == json::value(0.1)));
  BOOST_TEST((settings.at("dry_penalty_last_n") == json::value(-1)));
  BOOST_TEST(settings.at("dry_sequence_breakers").as_array().size() == 4U);
  BOOST_TEST(settings.at("samplers").as_array().at(1) == json::value("temperature"));
  BOOST_TEST(body.at("timings").at("prompt_n") == json::value(2));
  BOOST_TEST(body.at("timings").at("predicted_per_token_ms").to_number<double>() == 8.0 / 3,
             boost::test_tools::tolerance(0.01));
  BOOST_TEST(!body.contains("completion_probabilities"));
}

BOOST_AUTO_TEST_CASE(a_stop_string_is_named_and_cut_with_its_probabilities) {
  prepared.asked.stop = {"yz"};
  prepared.asked.logprobs = true;
  prepared.asked.top_logprobs = 1;
  make();
  run(0, "xyz", engine::finish_reason::length);
  const auto body = json::parse(plan.body()).as_object();
  BOOST_TEST((body.at("content") == json::value("x") && body.at("stopping_word") == json::value("yz")));
  BOOST_TEST(body.at("stop_type") == json::value("word"));
  const auto& told = body.at("completion_probabilities").as_array();
  BOOST_TEST_REQUIRE(told.size() == 1U);
  BOOST_TEST((told[0].at("id") == json::value(120) && told[0].at("token") == json::value("x")));
  BOOST_TEST(told[0].at("top_logprobs").as_array().at(0).at("id") == json::value(122));
}

BOOST_AUTO_TEST_CASE(the_models_own_end) {
  make();
  run(0, "x", engine::finish_reason::stop);
  const auto body = json::parse(plan.body()).as_object();
  BOOST_TEST((body.at("stop_type") == json::value("eos") && body.at("tokens") == json::value(json::array())));
}

BOOST_AUTO_TEST_CASE(a_stream_has_chunks_and_a_last_one_and_no_done) {
  prepared.asked.stream = true;
  make();
  const auto frames = frames_of(run(0, "xy", engine::finish_reason::length));
  BOOST_TEST(plan.streams);
  BOOST_TEST(!plan.closing);
  BOOST_TEST_REQUIRE(frames.size() == 3U);
  BOOST_TEST((frames[1].at("content") == json::value("y") && frames[1].at("stop") == json::value(false)));
  BOOST_TEST((frames[1].at("tokens") == json::value(json::array{121}) &&
              frames[1].at("tokens_predicted") == json::value(2)));
  BOOST_TEST((frames[2].at("content") == json::value("") && frames[2].at("stop") == json::value(true)));
  BOOST_TEST(frames[2].contains("timings"));
}

BOOST_AUTO_TEST_CASE(chunks_tell_progress_and_timings_where_they_are_wanted) {
  prepared.asked.stream = true;
  prepared.asked.shows.progress = true;
  prepared.asked.shows.timings = true;
  make();
  executions[0].progress({1, 3, 20});
  time += 20ms;
  const auto frames = frames_of(run(0, "x", engine::finish_reason::length));
  BOOST_TEST_REQUIRE(frames.size() == 4U);
  BOOST_TEST(json::serialize(frames[0].at("prompt_progress")) ==
             R"({"total":3,"cache":1,"processed":1,"time_ms":0})");
  BOOST_TEST(json::serialize(frames[1].at("prompt_progress")) ==
             R"({"total":3,"cache":1,"processed":3,"time_ms":20})");
  BOOST_TEST((frames[1].at("content") == json::value("") && frames[1].at("stop") == json::value(false)));
  BOOST_TEST((!frames[1].contains("timings") && !frames[2].contains("prompt_progress")));
  const auto& timings = frames[2].at("timings").as_object();
  BOOST_TEST((timings.at("cache_n") == json::value(1) && timings.at("prompt_n") == json::value(2)));
  BOOST_TEST(timings.at("predicted_n") == json::value(1));
  BOOST_TEST(timings.at("prompt_ms").to_number<double>() == 20.0);
  BOOST_TEST(frames[3].at("timings").at("prompt_ms").to_number<double>() == 4.0);
}

BOOST_AUTO_TEST_CASE(only_the_members_that_are_wanted) {
  const auto notes = std::make_shared<llama_notes>();
  notes->response_fields = {"content",
                            "generation_settings/n_predict",
                            "timings/cache_n",
                            "none",
                            "content/x",
                            "timings/",
                            "timings/cache_n/x",
                            "stop/generation",
                            "/",
                            ""};
  prepared.asked.notes = notes;
  make();
  run(0, "x", engine::finish_reason::stop);
  BOOST_TEST(plan.body() == R"({"content":"x","generation_settings/n_predict":9,"timings/cache_n":1})");
  notes->response_fields = {"nothing"};
  prepared.jobs.clear();
  executions.clear();
  make();
  run(0, "x", engine::finish_reason::stop);
  BOOST_TEST(plan.body() == "{}");
}

BOOST_AUTO_TEST_CASE(several_prompts_give_a_list) {
  make(2);
  run(1, "y", engine::finish_reason::stop);
  run(0, "x", engine::finish_reason::stop);
  const auto body = json::parse(plan.body()).as_array();
  BOOST_TEST_REQUIRE(body.size() == 2U);
  BOOST_TEST((body[1].at("index") == json::value(1) && body[1].at("content") == json::value("y")));
}

BOOST_AUTO_TEST_CASE(probabilities_after_sampling) {
  const auto list = [](probability_kind kind) {
    std::vector<logprob_entry> entries(1);
    entries[0].logprobs = {{'a', 0.0F}, {'a', 0.0F}, {'z', -std::numeric_limits<float>::infinity()}};
    return json::parse(render_probabilities(entries, letters, kind)).at(0).as_object();
  };
  for (const auto kind : {probability_kind::greedy, probability_kind::sampled}) {
    const auto told = list(kind);
    BOOST_TEST(told.at("prob").to_number<double>() == 1.0);
    BOOST_TEST((!told.contains("logprob") && !told.contains("top_logprobs") && told.at("id") == 'a'));
    const auto& top = told.at("top_probs").as_array();
    BOOST_TEST_REQUIRE(top.size() == 2U);
    BOOST_TEST(top[0].at("prob").to_number<double>() == 1.0);
    BOOST_TEST(top[1].at("prob").to_number<double>() < 1e-30);
  }
  BOOST_TEST(list(probability_kind::logprob).contains("top_logprobs"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
