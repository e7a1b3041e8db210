// What the scheduler and the sampler cost per token: the accelerator here computes nothing, so all of
// the time is ours. Expected: below 2 us per sequence and step, and below 2 ms to sample from the
// largest vocabulary.
#include "engine/schedule/scheduler.hpp"

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/instant_accelerator.hpp"
#include "engine/sampling/sampling.hpp"

namespace {

using namespace orcd::engine;

/// Answers every request for a token at once, with the same token.
class echoing_accelerator final : public orcd::bench::instant_accelerator {
 public:
  std::uint32_t chunk_tokens() const noexcept override { return 512; }
  std::uint32_t launch_depth() const noexcept override { return 2; }
  void launch(std::span<const sequence_step> sequences, const interrupt_flag&) override {
    for (const auto& part : sequences) {
      if (part.sample != nullptr) asked_[launched_ % 2].push_back({part.slot, 7});
    }
    ++launched_;
  }
  bool collect(const interrupt_flag&, std::vector<sampled_token>& sampled) override {
    auto& asked = asked_[collected_++ % 2];
    sampled.insert(sampled.end(), asked.begin(), asked.end());
    asked.clear();
    return true;
  }

 private:
  std::vector<sampled_token> asked_[2];
  std::uint64_t launched_ = 0, collected_ = 0;
};

class counting_sink final : public event_sink {
 public:
  void offer(const job_event& event) noexcept override { benchmark::DoNotOptimize(events_ += event.index()); }

 private:
  std::uint64_t events_ = 0;
};

job_request request(std::uint64_t number, std::uint32_t max_tokens) {
  job_request out;
  out.job_id = "job-" + std::to_string(number);
  out.prompt.assign(128, 5);
  out.max_tokens = max_tokens;
  out.seed = number;
  out.sampling.frequency_penalty = 0.5F;
  return out;
}

scheduler_config config_of(std::uint32_t slots) {
  scheduler_config config;
  config.slots = slots;
  config.end_of_generation = {1, 2, 3};
  return config;
}

/// Decode steps with every slot busy.
void step(benchmark::State& state) {
  const auto slots = static_cast<std::uint32_t>(state.range(0));
  echoing_accelerator device;
  scheduler loop(device, config_of(slots));
  const auto sink = std::make_shared<counting_sink>();
  std::uint64_t jobs = 0;
  for (auto _ : state) {
    state.PauseTiming();
    while (jobs < loop.steps() / 100'000 * slots + slots) loop.submit(request(jobs++, 100'000), sink);
    state.ResumeTiming();
    for (int i = 0; i < 1000; ++i) loop.run_step();
  }
  state.counters["per_sequence_step"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 1000 * slots,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(step)->Arg(1)->Arg(8)->Arg(64);

/// A whole job of one output token: submit, admit, prefill, end.
void job(benchmark::State& state) {
  echoing_accelerator device;
  scheduler loop(device, config_of(1));
  const auto sink = std::make_shared<counting_sink>();
  std::uint64_t number = 0;
  for (auto _ : state) {
    loop.submit(request(number++, 1), sink);
    while (loop.run_step()) {
    }
  }
}
BENCHMARK(job);

enum class kind : std::int64_t { greedy, penalised, plain, top_k, top_p, all };

/// One token of a vocabulary of the given size; logits spread like a model's.
void choose(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> spread(0.0F, 3.0F);
  std::vector<float> logits(static_cast<std::size_t>(state.range(0)));
  for (float& logit : logits) logit = spread(random);
  sampling_params params;
  params.temperature = 0.8F;
  switch (static_cast<kind>(state.range(1))) {
    case kind::greedy: params.temperature = 0.0F; break;
    case kind::penalised: params.temperature = 0.0F, params.repetition_penalty = 1.1F; break;
    case kind::plain: break;
    case kind::top_k: params.top_k = 40; break;
    case kind::top_p: params.top_p = 0.95F; break;
    case kind::all:
      params.top_k = 40, params.top_p = 0.95F, params.min_p = 0.05F, params.repetition_penalty = 1.1F;
      break;
  }
  constexpr const char* names[] = {"greedy", "greedy, penalised", "plain", "top_k", "top_p", "all filters"};
  state.SetLabel(names[state.range(1)]);
  const std::vector<token_id> recent(64, 11);
  sampling_workspace workspace;
  draw_source draws(1);
  for (auto _ : state) {
    benchmark::DoNotOptimize(sample(logits, params, recent, {}, draws.next(), workspace));
  }
}
BENCHMARK(choose)->ArgsProduct({{49'152, 201'088}, {0, 1, 2, 3, 4, 5}})->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
