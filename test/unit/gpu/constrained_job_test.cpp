// From schema to tokens on the host backend: a model of random weights writes what its grammars say, the same
// alone, among others and at every launch depth.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/matcher.hpp"
#include "engine/schedule/scheduler.hpp"
#include "test/support/recording_sink.hpp"
#include "test/unit/gpu/tiny_backend.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

using namespace orcd;
using namespace orcd::test;

namespace {

const std::vector<std::string> schemas{R"({"type": "string", "format": "date"})",
                                       R"({"type": "string", "format": "uuid"})",
                                       R"({"type": "string", "pattern": "^(ab|cd|狐){2,9}[0-9]{3}$"})",
                                       R"({"type": "integer", "minimum": -1234, "maximum": 98765})"};

class constrained_run {
 public:
  explicit constrained_run(std::uint32_t vocab)
      : table_(engine::grammar::make_token_table(vocabulary_, vocab)) {
    for (const auto& text : schemas) {
      programs_.push_back(engine::grammar::compile_json_schema(boost::json::parse(text)).value());
    }
  }

  std::vector<std::string> texts(engine::accelerator& device, std::uint32_t slots, std::uint32_t jobs) {
    engine::scheduler_config config;
    config.slots = slots;
    config.end_of_generation = {vocabulary_.end()};
    engine::scheduler loop(device, config);
    std::vector<std::shared_ptr<recording_sink>> sinks;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      engine::job_request job;
      job.job_id = "job" + std::to_string(i);
      job.prompt = {static_cast<engine::token_id>(i % 7), 3, 1};
      job.max_tokens = 60;
      job.seed = i;
      job.sampling.temperature = i % 2 == 0 ? 1.0F : 0.0F;
      if (i % 5 != 4) {
        job.constraint = engine::grammar::make_matcher(programs_[i % programs_.size()], table_);
      }
      sinks.push_back(std::make_shared<recording_sink>());
      loop.submit(std::move(job), sinks.back());
    }
    while (loop.run_step()) {
    }
    std::vector<std::string> out;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      BOOST_REQUIRE(sinks[i]->end().has_value());
      out.push_back(vocabulary_.decode(sinks[i]->tokens(), true));
      if (i % 5 == 4) continue;
      BOOST_TEST((sinks[i]->end()->reason == engine::finish_reason::stop));
      engine::grammar::matcher m(programs_[i % programs_.size()], table_);
      BOOST_TEST((m.accept_text(out.back()) && m.may_end()), out.back());
    }
    return out;
  }

 private:
  piece_tokenizer vocabulary_;
  std::shared_ptr<const engine::grammar::token_table> table_;
  std::vector<std::shared_ptr<const engine::grammar::program>> programs_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(constrained_jobs)

BOOST_AUTO_TEST_CASE(outputs_are_valid_and_depend_on_nothing_else) {
  constexpr std::uint32_t jobs = 20;
  const auto model = every_tiny_model().front();
  std::vector<std::string> expected;
  for (const std::uint32_t slots : {1U, 3U}) {
    for (const std::uint32_t depth : {1U, 2U}) {
      gpu::host_backend_options options;
      options.launch_depth = depth;
      tiny_backend b(model.options, options, slots);
      BOOST_REQUIRE(b.model().spec.vocab >= 257U);
      constrained_run run(b.model().spec.vocab);
      const auto got = run.texts(b.device(), slots, jobs);
      if (expected.empty()) expected = got;
      BOOST_TEST(got == expected, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
