// What drafts gain on the CUDA backend, for models whose output means nothing: tokens that were decoded
// plainly are offered again as drafts, each wrong with probability 1 - p, to the scheduler that a worker has.
// Prints a table and writes a flat JSON object of figures.
//   bench_cuda_replay --model FILE --name NAME [--streams N] [--context N] [--tokens N] [--json FILE]
//                     [--backend cuda|host]
// Rows of NAME/replay/pP: output tokens a second of all streams, over the plain rate of the same device, and
// how many drafts were right. p0 to p95: as many drafts as pay; k7/p80: always seven. `ratio` is for one
// stream, with more it is in streamsN/. A run whose tokens differ from the plain ones says so and fails. The
// host backend is there to try the benchmark itself.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/decode/command_line.hpp"
#include "bench/decode/figures.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/schedule/scheduler.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/host/host_backend.hpp"

namespace {

using namespace orcd;
using steady = std::chrono::steady_clock;
using tokens = std::vector<engine::token_id>;

constexpr std::uint32_t drafts_planned = 64;

struct settings {
  std::string model, name, json, backend = "cuda";
  std::uint32_t streams = 1;
  std::uint32_t context = 16;  ///< tokens of the prompt
  std::uint32_t tokens = 256;  ///< of the output
};

/// Keeps a job's tokens, and when the first and the last came.
class timed_sink final : public engine::event_sink {
 public:
  void offer(const engine::job_event& event) noexcept override {
    if (const auto* token = std::get_if<engine::token_event>(&event)) {
      if (out.empty()) first = steady::now();
      out.push_back(token->token);
      last = steady::now();
    }
    failed = failed || std::holds_alternative<engine::error_event>(event);
  }
  tokens out;
  steady::time_point first, last;
  bool failed = false;
};

/// Offers what is known of the output, each token wrong with a probability.
class replay final : public engine::draft_source {
 public:
  replay(tokens whole, double right, std::uint64_t seed)
      : whole_(std::move(whole)), right_(right), random_(seed) {}
  std::uint32_t guess(std::span<const engine::token_id> known, std::uint32_t most, tokens& guess) override {
    guess.clear();
    for (std::size_t at = known.size(); at < whole_.size() && guess.size() < most; ++at) {
      const bool right = std::uniform_real_distribution<>(0, 1)(random_) < right_;
      guess.push_back(right ? whole_[at] : whole_[at] == 0 ? 1 : 0);
    }
    return engine::draft_kinds - 1;
  }

 private:
  tokens whole_;
  double right_;
  std::mt19937_64 random_;
};

struct run_result {
  std::vector<tokens> out;
  double tok_s = 0.0;
  engine::draft_counts drafts;
};

class benchmark {
 public:
  explicit benchmark(const settings& s) : s_(s) {
    auto file = engine::gguf_file::open(s.model);
    if (!file) throw std::runtime_error(file.error().message);
    file_ = std::make_unique<engine::gguf_file>(std::move(*file));
    auto model = engine::load_model(*file_);
    if (!model) throw std::runtime_error(model.error().message);
    model_ = std::move(*model);
    if (s.backend == "cuda") {
      gpu::cuda_backend_options options;
      options.end = gpu::device_end::keep;
      device_ = gpu::make_cuda_backend(options);
    } else {
      device_ = gpu::make_host_backend();
    }
    engine::accelerator_config config{s.streams, s.context + s.tokens, {}};
    config.draft_tokens = drafts_planned;
    const auto plan = device_->load(model_, config, [](unsigned) {});
    if (!plan) throw std::runtime_error(plan.error().message);
  }

  int run() {
    for (const std::uint32_t n : {2U, 4U, 8U, 9U, 16U, 17U, 32U, 33U, 64U}) {
      if (n > s_.streams + device_->draft_tokens()) break;
      figures_.add(s_.name + "/step_cost/" + std::to_string(n), device_->step_cost(n));
      std::printf("a step of %3u tokens costs %.3f of one of a single token\n", n, device_->step_cost(n));
    }
    (void)measure({});
    plain_ = measure({});
    std::printf("%-28s %10.1f tok/s\n", "plain", plain_.tok_s);
    for (const int p : {0, 50, 80, 95}) compare("p" + std::to_string(p), p / 100.0, 0);
    compare("k7/p80", 0.8, 7);
    if (!s_.json.empty()) figures_.write(s_.json);
    return differ_ ? 1 : 0;
  }

 private:
  [[nodiscard]] engine::job_request job(std::uint32_t stream) const {
    engine::job_request out;
    out.job_id = std::to_string(stream);
    std::mt19937_64 random(stream + 1);
    for (std::uint32_t i = 0; i < s_.context; ++i)
      out.prompt.push_back(static_cast<engine::token_id>(random() % model_.spec.vocab));
    out.max_tokens = s_.tokens;
    out.sampling.temperature = 0.0F;
    out.ignore_eos = true;
    return out;
  }

  /// From the moment when all streams have a first token until the first of them ends.
  run_result measure(engine::speculation drafts) {
    engine::scheduler_config config;
    config.slots = s_.streams;
    config.drafts = std::move(drafts);
    config.cache.share = false;
    engine::scheduler loop(*device_, config);
    std::vector<std::shared_ptr<timed_sink>> sinks;
    for (std::uint32_t i = 0; i < s_.streams; ++i) {
      sinks.push_back(std::make_shared<timed_sink>());
      loop.submit(job(i), sinks.back());
    }
    const auto all_begun = [&] {
      return std::all_of(sinks.begin(), sinks.end(), [](const auto& sink) { return !sink->out.empty(); });
    };
    const auto count = [&] {
      std::size_t out = 0;
      for (const auto& sink : sinks) out += sink->out.size();
      return out;
    };
    while (!all_begun() && loop.run_step()) {
    }
    const auto begin = steady::now();
    const std::size_t before = count();
    while (loop.running() == s_.streams && loop.run_step()) {
    }
    const double seconds = std::chrono::duration<double>(steady::now() - begin).count();
    run_result out;
    out.tok_s = static_cast<double>(count() - before) / seconds;
    while (loop.run_step()) {
    }
    for (const auto& sink : sinks) {
      if (sink->failed) throw std::runtime_error("a job failed");
      out.out.push_back(sink->out);
    }
    out.drafts = loop.counts().drafts;
    return out;
  }

  /// The best of three runs.
  void compare(const std::string& row, double right, std::uint32_t always) {
    engine::speculation drafts{true, always};
    drafts.source = [this, right](engine::job_request& job, std::uint32_t) {
      std::uint32_t stream = 0;
      std::from_chars(job.job_id.data(), job.job_id.data() + job.job_id.size(), stream);
      tokens whole = this->job(stream).prompt;
      whole.insert(whole.end(), plain_.out[stream].begin(), plain_.out[stream].end());
      return std::make_unique<replay>(std::move(whole), right, stream);
    };
    run_result best;
    for (int i = 0; i < 3; ++i) {
      run_result one = measure(drafts);
      if (one.out != plain_.out) differ_ = true;
      if (one.tok_s > best.tok_s) best = std::move(one);
    }
    const std::string name =
        s_.name + (s_.streams == 1 ? "" : "/streams" + std::to_string(s_.streams)) + "/replay/" + row;
    const auto steps = static_cast<double>(std::max<std::uint64_t>(1, best.drafts.steps));
    figures_.add(name + "/ratio", best.tok_s / plain_.tok_s);
    figures_.add(name + "/tok_s", best.tok_s);
    figures_.add(name + "/drafts_a_step", static_cast<double>(best.drafts.tokens) / steps);
    std::printf("%-28s %10.1f tok/s %6.3f x, %llu of %llu drafts right in %llu steps%s\n", row.c_str(),
                best.tok_s, best.tok_s / plain_.tok_s, static_cast<unsigned long long>(best.drafts.right),
                static_cast<unsigned long long>(best.drafts.tokens),
                static_cast<unsigned long long>(best.drafts.steps), differ_ ? "; OTHER TOKENS" : "");
    std::fflush(stdout);
  }

  settings s_;
  std::unique_ptr<engine::gguf_file> file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  bench::figures figures_;
  run_result plain_;
  bool differ_ = false;
};

settings parse(int argc, char** argv) {
  settings s;
  bench::read_options(
      argc, argv,
      {{{"--model", &s.model}, {"--name", &s.name}, {"--json", &s.json}, {"--backend", &s.backend}},
       {{"--streams", &s.streams}, {"--context", &s.context}, {"--tokens", &s.tokens}}});
  bench::check_common(s.model, s.name, s.backend);
  if (s.streams == 0 || s.context == 0 || s.tokens < 2) throw std::invalid_argument("there is nothing to do");
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr auto usage =
      "--model FILE --name NAME [--streams N] [--context N] [--tokens N] [--json FILE] [--backend cuda|host]";
  return bench::run_benchmark("bench_cuda_replay", usage, [&] { return benchmark(parse(argc, argv)).run(); });
}
