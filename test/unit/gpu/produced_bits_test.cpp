// A job that goes on behind tokens that another process made gets the tokens and the log probabilities that
// it would have got, bit for bit: whatever the sampling, the cut, the neighbours, the chunks, and whether the
// prompt is known already.
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/grammar/grammar.hpp"
#include "engine/grammar/matcher.hpp"
#include "engine/schedule/scheduler.hpp"
#include "gpu/host/host_backend.hpp"
#include "test/support/rare_samplers.hpp"
#include "test/support/recording_sink.hpp"
#include "test/unit/gpu/tiny_backend.hpp"
#include "test/unit/grammar/piece_tokenizer.hpp"

using namespace orcd;
using namespace orcd::test;
using engine::token_id;

namespace {

constexpr std::uint32_t context = 512;
constexpr std::uint32_t max_tokens = 24;
constexpr std::uint32_t kinds = 9;

/// A scheduler on the host backend. Jobs of every kind are described by their number alone.
class bench {
 public:
  bench(const tiny_backend& source, std::uint32_t slots, std::uint32_t chunk, std::uint32_t depth)
      : source_(source),
        table_(engine::grammar::make_token_table(vocabulary_, source.model().spec.vocab)),
        device_(gpu::make_host_backend({.threads = 1, .chunk_tokens = chunk, .launch_depth = depth})) {
    (void)device_
        ->load(source.model(), {.slots = slots, .context_tokens = context, .banned_tokens = {}},
               [](unsigned) {})
        .value();
    engine::scheduler_config config;
    config.slots = slots;
    config.end_of_generation = {vocabulary_.end()};
    config.cache = {.tokens_min = 1};
    loop_ = std::make_unique<engine::scheduler>(*device_, config);
  }

  engine::job_request job(std::uint32_t kind, token_id stop) const {
    engine::job_request out;
    out.job_id = "job" + std::to_string(kind);
    out.prompt = source_.prompt(kind % 2 == 0 ? 245 : 40, kind);  // the output crosses a page, or does not
    out.max_tokens = max_tokens;
    out.seed = 100 + kind;
    out.ignore_eos = kind != 2;
    out.sampling.temperature = kind == 0 ? 0.0F : 0.8F;
    if (kind == 1) out.sampling.top_k = 5;
    if (kind == 2) out.sampling.top_p = 0.9F;
    if (kind == 3) out.sampling.min_p = 0.01F;
    if (kind >= 2) {
      out.sampling.repetition_penalty = 1.3F;
      out.sampling.frequency_penalty = 0.4F;
      out.sampling.repeat_last_n = 5 + 40 * (kind % 2);  // the output alone, or the prompt too
    }
    out.logprobs = kind == 0 || kind >= 4;
    out.top_logprobs = out.logprobs ? 3 : 0;
    if (kind == 5) {
      const auto schema = boost::json::parse(R"({"type": "string", "pattern": "^(ab|cd){2,9}[0-9]{3}$"})");
      out.constraint =
          engine::grammar::make_matcher(engine::grammar::compile_json_schema(schema).value(), table_);
    }
    if (kind == 6) out.stop_tokens = {stop};
    if (kind == 6) out.keep_stop_token = true;
    if (kind == 7) out.sampling.biases = {{3, 2.5F}, {9, -1.0F}};
    if (kind == 8) test::use_rare_samplers(out.sampling, kind);
    return out;
  }

  std::shared_ptr<recording_sink> submit(engine::job_request job) {
    const auto sink = std::make_shared<recording_sink>(static_cast<std::uint32_t>(job.produced.size()));
    loop_->submit(std::move(job), sink);
    return sink;
  }
  void finish() {
    while (loop_->run_step()) {
    }
  }

 private:
  const tiny_backend& source_;
  piece_tokenizer vocabulary_;
  std::shared_ptr<const engine::grammar::token_table> table_;
  std::unique_ptr<engine::accelerator> device_;
  std::unique_ptr<engine::scheduler> loop_;
};

bool same_bits(const engine::token_logprobs& a, const engine::token_logprobs& b) {
  if (std::memcmp(&a.chosen, &b.chosen, sizeof(float)) != 0 || a.listed != b.listed) return false;
  for (std::uint32_t i = 0; i < a.listed; ++i) {
    if (a.top[i].token != b.top[i].token) return false;
    if (std::memcmp(&a.top[i].logprob, &b.top[i].logprob, sizeof(float)) != 0) return false;
  }
  return true;
}

void expect_rest(const recording_sink& rest, const recording_sink& whole, std::size_t cut,
                 const std::string& what) {
  BOOST_TEST(rest.fault() == "", what);
  BOOST_REQUIRE_MESSAGE(rest.end().has_value(), what);
  BOOST_TEST((rest.end()->reason == whole.end()->reason), what);
  BOOST_TEST(rest.stats().tokens_out == whole.stats().tokens_out, what);
  BOOST_TEST(rest.stats().tokens_in == whole.stats().tokens_in, what);
  const std::vector<token_id> tail(whole.tokens().begin() + static_cast<std::ptrdiff_t>(cut),
                                   whole.tokens().end());
  BOOST_TEST((rest.tokens() == tail), what);
  if (whole.logprobs().empty()) return;
  BOOST_REQUIRE_MESSAGE(rest.logprobs().size() == tail.size(), what);
  for (std::size_t i = 0; i < tail.size(); ++i) {
    BOOST_TEST(same_bits(rest.logprobs()[i], whole.logprobs()[cut + i]), what << ", token " << cut + i);
  }
}

/// The whole output of a job of each kind, each alone on a fresh device.
std::vector<std::shared_ptr<recording_sink>> whole_outputs(const tiny_backend& source, token_id& stop) {
  std::vector<std::shared_ptr<recording_sink>> out;
  for (std::uint32_t kind = 0; kind < kinds; ++kind) {
    bench alone(source, 1, 64, 1);
    if (kind == 6) {
      auto free_run = alone.job(kind, -1);
      const auto seen = alone.submit(std::move(free_run));
      alone.finish();
      stop = seen->tokens().at(10);
    }
    bench fresh(source, 1, 64, 1);
    out.push_back(fresh.submit(fresh.job(kind, stop)));
    fresh.finish();
    BOOST_REQUIRE(out.back()->end().has_value());
    // Those that nothing but the limit ends.
    if (kind != 2 && kind != 5 && kind != 6) BOOST_REQUIRE(out.back()->tokens().size() == max_tokens);
  }
  BOOST_TEST((out[5]->end()->reason == engine::finish_reason::stop));
  BOOST_TEST((out[6]->end()->reason == engine::finish_reason::stop));
  return out;
}

void check(const tiny_case& model, std::uint32_t slots, std::uint32_t chunk, std::uint32_t depth) {
  auto options = model.options;
  options.context = context;
  const tiny_backend source(options);
  BOOST_REQUIRE(source.model().spec.vocab >= 257U);
  token_id stop = -1;
  const auto whole = whole_outputs(source, stop);
  bench warm(source, slots, chunk, depth);  // keeps the prompts, and their outputs, of each cut for the next
  for (const std::size_t cut : {0U, 1U, 3U, 11U, 12U, 20U, max_tokens - 1, max_tokens}) {
    bench cold(source, slots, chunk, depth);
    for (bench* one : {&cold, &warm}) {
      std::vector<std::shared_ptr<recording_sink>> rest;
      for (std::uint32_t kind = 0; kind < kinds; ++kind) {
        auto job = one->job(kind, stop);
        const auto& tokens = whole[kind]->tokens();
        const auto known = std::min(cut, tokens.size());
        job.produced.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(known));
        rest.push_back(one->submit(std::move(job)));
      }
      one->finish();
      for (std::uint32_t kind = 0; kind < kinds; ++kind) {
        expect_rest(*rest[kind], *whole[kind], std::min(cut, whole[kind]->tokens().size()),
                    model.name + ", kind " + std::to_string(kind) + " cut at " + std::to_string(cut) +
                        (one == &warm ? ", warm" : ", cold"));
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(produced_bits)

BOOST_AUTO_TEST_CASE(the_rest_of_every_kind_of_job_has_the_same_bits) {
  const auto models = every_tiny_model();
  check(models.front(), 1, 64, 1);
  check(models.front(), 3, 7, 2);
}

BOOST_AUTO_TEST_CASE(on_every_family) {
  for (const auto& model : every_tiny_model()) check(model, 3, 100, 2);
}

BOOST_AUTO_TEST_SUITE_END()
