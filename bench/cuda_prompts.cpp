// What prompts cost on the CUDA backend, through the scheduler that a worker has. Prints a table and writes a
// flat JSON object of figures.
//   bench_cuda_prompts --model FILE --name NAME [--streams N] [--prompt N] [--tokens N] [--json FILE]
//                      [--backend cuda|host]
// Rows of NAME/prompts/STREAMSxPROMPT: `all_begun_ms`, from so many prompts at once until each has its first
// token; `steady/`, output tokens a second of all streams while a new prompt comes whenever a stream ends,
// and what a stream that has begun waits for its next token. `hash` is of all tokens of the first run: it is
// equal for all builds with the same numerics. The host backend is there to try the benchmark itself.
#include <algorithm>
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

struct settings {
  std::string model, name, json, backend = "cuda";
  std::uint32_t streams = 64;
  std::uint32_t prompt = 128;  ///< tokens
  std::uint32_t tokens = 128;  ///< of the output, on average
};

double ms_since(steady::time_point begin) {
  return std::chrono::duration<double, std::milli>(steady::now() - begin).count();
}

/// Keeps a job's tokens, and how long each came after the one before.
class timed_sink final : public engine::event_sink {
 public:
  void offer(const engine::job_event& event) noexcept override {
    if (const auto* token = std::get_if<engine::token_event>(&event)) {
      const auto now = steady::now();
      if (!out.empty()) gaps.push_back(std::chrono::duration<double, std::milli>(now - last_).count());
      out.push_back(token->token);
      last_ = now;
    }
    ended = ended || std::holds_alternative<engine::end_event>(event);
    failed = failed || std::holds_alternative<engine::error_event>(event);
  }
  std::vector<engine::token_id> out;
  std::vector<double> gaps;
  bool ended = false, failed = false;

 private:
  steady::time_point last_;
};

double at_share(std::vector<double>& values, double share) {
  if (values.empty()) return 0.0;
  const auto nth = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + nth, values.end());
  return values[static_cast<std::size_t>(nth)];
}

class benchmark {
 public:
  explicit benchmark(const settings& s)
      : s_(s), row_(s.name + "/prompts/" + std::to_string(s.streams) + "x" + std::to_string(s.prompt)) {
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
    const auto plan = device_->load(model_, {s.streams, s.prompt + 2 * s.tokens, {}}, [](unsigned) {});
    if (!plan) throw std::runtime_error(plan.error().message);
  }

  void run() {
    all_at_once();
    keep_coming();
    if (!s_.json.empty()) figures_.write(s_.json);
  }

 private:
  using sink_ptr = std::shared_ptr<timed_sink>;

  sink_ptr submit(engine::scheduler& loop, std::uint32_t number, std::uint32_t tokens) const {
    engine::job_request job;
    job.job_id = std::to_string(number);
    std::mt19937_64 random(number + 1);
    for (std::uint32_t i = 0; i < s_.prompt; ++i)
      job.prompt.push_back(static_cast<engine::token_id>(random() % model_.spec.vocab));
    job.max_tokens = tokens;
    job.sampling.temperature = 0.0F;
    job.ignore_eos = true;
    auto sink = std::make_shared<timed_sink>();
    loop.submit(std::move(job), sink);
    return sink;
  }
  [[nodiscard]] engine::scheduler_config config() const {
    engine::scheduler_config out;
    out.slots = s_.streams;
    out.cache.share = false;
    return out;
  }
  void add(const std::string& what, double value, const char* unit) {
    figures_.add(row_ + "/" + what, value);
    std::printf("%-44s %12.3f %s\n", (row_ + "/" + what).c_str(), value, unit);
    std::fflush(stdout);
  }

  void all_at_once() {
    constexpr int runs = 6;
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
      engine::scheduler loop(*device_, config());
      std::vector<sink_ptr> sinks;
      const auto begin = steady::now();
      for (std::uint32_t n = 0; n < s_.streams; ++n) sinks.push_back(submit(loop, n, s_.tokens));
      const auto begun = [&] {
        return std::all_of(sinks.begin(), sinks.end(), [](const auto& sink) { return !sink->out.empty(); });
      };
      while (!begun() && loop.run_step()) {
      }
      // The first run warms up.
      if (i > 0) times.push_back(ms_since(begin));
      while (loop.run_step()) {
      }
      if (i == 0) hash(sinks);
    }
    add("all_begun_ms", at_share(times, 0.5), "ms");
  }

  void hash(const std::vector<sink_ptr>& sinks) {
    std::uint32_t hash = 2'166'136'261U;
    for (const auto& sink : sinks) {
      if (sink->failed) throw std::runtime_error("a job failed");
      for (const engine::token_id token : sink->out)
        hash = (hash ^ static_cast<std::uint32_t>(token)) * 16'777'619U;
    }
    figures_.add(row_ + "/hash", std::uint64_t{hash});
    std::printf("%-44s %12u\n", (row_ + "/hash").c_str(), hash);
  }

  /// Outputs are of half to one and a half times the length that was asked for, so that prompts come evenly.
  void keep_coming() {
    engine::scheduler loop(*device_, config());
    std::vector<sink_ptr> streams(s_.streams);
    std::vector<double> gaps;
    std::uint32_t jobs = 0;
    std::size_t tokens = 0;
    std::minstd_rand random(1);
    const auto turn_over = [&] {
      for (auto& stream : streams) {
        if (stream && !stream->ended) continue;
        if (stream && stream->failed) throw std::runtime_error("a job failed");
        if (stream) {
          tokens += stream->out.size();
          gaps.insert(gaps.end(), stream->gaps.begin(), stream->gaps.end());
        }
        stream = submit(loop, jobs++, s_.tokens / 2 + static_cast<std::uint32_t>(random() % s_.tokens));
      }
    };
    turn_over();
    while (jobs < 3 * s_.streams && loop.run_step()) turn_over();
    const auto begin = steady::now();
    tokens = 0;
    gaps.clear();
    const std::uint32_t first = jobs;
    while (jobs < 9 * s_.streams && loop.run_step()) turn_over();
    const double seconds = ms_since(begin) / 1e3;
    add("steady/output_tok_s", static_cast<double>(tokens) / seconds, "tok/s");
    add("steady/prompts_s", (jobs - first) / seconds, "prompts/s");
    add("steady/gap_p50_ms", at_share(gaps, 0.5), "ms");
    add("steady/gap_p99_ms", at_share(gaps, 0.99), "ms");
    add("steady/gap_max_ms", at_share(gaps, 1.0), "ms");
    loop.cancel_all(engine::cancel_reason::shutdown);
    while (loop.run_step()) {
    }
  }

  settings s_;
  std::string row_;
  std::unique_ptr<engine::gguf_file> file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  bench::figures figures_;
};

settings parse(int argc, char** argv) {
  settings s;
  bench::read_options(
      argc, argv,
      {{{"--model", &s.model}, {"--name", &s.name}, {"--json", &s.json}, {"--backend", &s.backend}},
       {{"--streams", &s.streams}, {"--prompt", &s.prompt}, {"--tokens", &s.tokens}}});
  bench::check_common(s.model, s.name, s.backend);
  if (s.streams == 0 || s.prompt == 0 || s.tokens < 2) throw std::invalid_argument("there is nothing to do");
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr auto usage =
      "--model FILE --name NAME [--streams N] [--prompt N] [--tokens N] [--json FILE] [--backend cuda|host]";
  return bench::run_benchmark("bench_cuda_prompts", usage, [&] {
    benchmark(parse(argc, argv)).run();
    return 0;
  });
}
