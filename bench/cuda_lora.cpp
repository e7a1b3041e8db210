// What LoRA adapters cost on the CUDA backend: decode rates with and without, prefill, and how long running
// steps wait while an adapter is put. Adapters are random, beside all seven matrices of every layer. Prints a
// table and writes a flat JSON object of figures.
//   bench_cuda_lora --model FILE --name NAME [--lora RANK] [--json FILE] [--quick] [--backend cuda|host]
// RANK: 16 unless given. Rows of NAME/lora/..., shares are of the rate without room:
//   b1/no_room  one slot, loaded without room for adapters
//   b1/none, b1/one  with room; the sequence without, and with one
//   b8/no_room, b8/none, b8/one_of_eight, b8/eight  eight slots; one sequence has an adapter; each another
//   b8/attention  each another, beside queries and values alone
//   prefill/512/none, prefill/512/one
//   put/quiet, put/busy  steps of seven sequences with adapters; an adapter being put, a part before each
//   step:
//                        median and longest milliseconds of a step
//   put/ms, put/stall_ms  how long a put takes in all; the difference of the two longest steps
// The host backend is there to try the benchmark itself.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/decode/adapters.hpp"
#include "bench/decode/command_line.hpp"
#include "bench/decode/figures.hpp"
#include "bench/decode/measure.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/host/host_backend.hpp"

namespace {

using namespace orcd;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t prompt = 16;
constexpr std::uint32_t prefilled = 512;
constexpr std::uint32_t context = 1024;
constexpr std::uint32_t adapters_max = 8;

struct settings {
  std::string model, name, json, backend = "cuda";
  std::uint32_t rank = 16;
  bool quick = false;
};

class benchmark {
 public:
  explicit benchmark(const settings& s) : s_(s) {
    if (s_.quick) limits_ = {.runs = 1, .tokens = 32, .seconds = 2.0};
    auto file = engine::gguf_file::open(s.model);
    if (!file) throw std::runtime_error(file.error().message);
    file_ = std::make_unique<engine::gguf_file>(std::move(*file));
    auto model = engine::load_model(*file_);
    if (!model) throw std::runtime_error(model.error().message);
    model_ = std::move(*model);
    for (std::uint32_t i = 0; i < adapters_max; ++i)
      adapters_.push_back(bench::make_adapter(model_, s_.rank, i + 1));
  }

  void run() {
    slots(1);
    slots(adapters_max);
    if (!s_.json.empty()) figures_.write(s_.json);
  }

 private:
  [[nodiscard]] std::unique_ptr<engine::accelerator> load(std::uint32_t slots, std::uint32_t room) const {
    std::unique_ptr<engine::accelerator> device;
    if (s_.backend == "cuda") {
      gpu::cuda_backend_options options;
      options.end = gpu::device_end::keep;
      device = gpu::make_cuda_backend(options);
    } else {
      device = gpu::make_host_backend();
    }
    engine::accelerator_config config{slots, context, {}};
    config.adapters = {room, s_.rank};
    config.window_groups = false;  // slots are used without begin()
    const auto begin = steady::now();
    const auto plan = device->load(model_, config, [](unsigned) {});
    if (!plan) throw std::runtime_error(plan.error().message);
    std::size_t free_bytes = 0, total_bytes = 0;
    if (s_.backend == "cuda") ORCD_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    std::printf(
        "loaded with %u slots and room for %u in %.2f s; planned %.1f MB, %.1f of it for adapters; the "
        "device has %.1f MB in use\n",
        slots, room, std::chrono::duration<double>(steady::now() - begin).count(),
        static_cast<double>(plan->total()) / 1e6, static_cast<double>(plan->adapters_bytes) / 1e6,
        static_cast<double>(total_bytes - free_bytes) / 1e6);
    return device;
  }

  void slots(std::uint32_t count) {
    const std::string at = "b" + std::to_string(count);
    none_ = 0.0;
    decode(at + "/no_room", *load(count, 0), count, {});
    const auto device = load(count, adapters_max);
    decode(at + "/none", *device, count, {});
    for (std::uint32_t i = 0; i < adapters_max; ++i) put(*device, i, adapters_[i]);
    if (count == 1) {
      decode(at + "/one", *device, count, {{{0, 1.0F}}});
      prefill("prefill/512/none", *device, {});
      prefill("prefill/512/one", *device, {{{0, 1.0F}}});
      return;
    }
    std::vector<std::vector<engine::active_adapter>> each;
    for (std::uint32_t i = 0; i < count; ++i) each.push_back({{i, 1.0F}});
    decode(at + "/one_of_eight", *device, count, {each.front()});
    decode(at + "/eight", *device, count, each);
    gaps(*device, each);
    for (std::uint32_t i = 0; i < adapters_max; ++i) put(*device, i, attention_alone(adapters_[i]));
    decode(at + "/attention", *device, count, each);
  }

  static engine::lora_adapter attention_alone(engine::lora_adapter adapter) {
    std::erase_if(adapter.pairs, [](const engine::lora_pair& pair) {
      return pair.target != engine::lora_target::attn_q && pair.target != engine::lora_target::attn_v &&
             pair.target != engine::lora_target::attn_qkv;
    });
    return adapter;
  }

  static void put(engine::accelerator& device, std::uint32_t index, const engine::lora_adapter& adapter) {
    const auto done = device.put_adapter(index, adapter);
    if (!done) throw std::runtime_error(done.error().message);
  }

  void decode(const std::string& what, engine::accelerator& device, std::uint32_t sequences,
              const std::vector<std::vector<engine::active_adapter>>& adapters) {
    const bench::rate got =
        bench::measure_decode(device, model_.spec.vocab, sequences, prompt, limits_, {sequences, adapters});
    if (none_ == 0.0) none_ = got.tok_s;
    report(what, got);
    const double share = got.tok_s / none_ - 1.0;
    figures_.add(key(what + "/change"), share);
    std::printf("%-40s %+13.1f %% of the rate without room\n", "", 100 * share);
  }

  void prefill(const std::string& what, engine::accelerator& device,
               const std::vector<std::vector<engine::active_adapter>>& adapters) {
    report(what, bench::measure_prefill(device, model_.spec.vocab, prefilled, limits_, {1, adapters}));
  }

  void report(const std::string& what, const bench::rate& got) {
    figures_.add(key(what + "/tok_s"), got.tok_s);
    figures_.add(key(what + "/ms"), got.step_ms);
    figures_.add(key(what + "/reproducible"), got.reproducible);
    std::printf("%-40s %14.1f tok/s %10.3f ms, %u runs, spread %.1f %%%s\n", key(what).c_str(), got.tok_s,
                got.step_ms, got.runs, 100 * got.spread,
                got.reproducible ? "" : "; RUNS DIFFER IN THEIR TOKENS");
    std::fflush(stdout);
  }

  /// Seven of the eight sequences run; the last place is put again and again.
  void gaps(engine::accelerator& device, const std::vector<std::vector<engine::active_adapter>>& each) {
    const std::uint32_t steps = s_.quick ? 200 : 900;
    constexpr std::uint32_t sequences = adapters_max - 1;
    std::vector<double> puts;
    const auto measured = [&](const char* what, const std::function<void(std::uint32_t)>& between) {
      std::vector<double> ms = bench::measure_gaps(device, model_.spec.vocab, sequences, prompt, steps,
                                                   {adapters_max, each}, between);
      std::sort(ms.begin(), ms.end());
      add(std::string("put/") + what + "/median_ms", ms[ms.size() / 2]);
      add(std::string("put/") + what + "/longest_ms", ms.back());
      return ms.back();
    };
    const double quiet = measured("quiet", [](std::uint32_t) {});
    std::optional<steady::time_point> begun;
    const double busy = measured("busy", [&](std::uint32_t step) {
      if (begun) {
        if (!device.continue_adapter()) return;
        puts.push_back(std::chrono::duration<double, std::milli>(steady::now() - *begun).count());
        begun.reset();
      } else if (step % 8 == 0) {
        begun = steady::now();
        const auto begins = device.begin_adapter(adapters_max - 1, adapters_.back());
        if (!begins) throw std::runtime_error(begins.error().message);
      }
    });
    while (begun && !device.continue_adapter()) {
    }
    if (puts.empty()) throw std::runtime_error("no adapter was put while steps ran");
    std::sort(puts.begin(), puts.end());
    add("put/ms", puts[puts.size() / 2]);
    add("put/stall_ms", busy - quiet);
  }

  void add(const std::string& what, double value) {
    figures_.add(key(what), value);
    std::printf("%-40s %14.3f\n", key(what).c_str(), value);
  }
  [[nodiscard]] std::string key(const std::string& rest) const { return s_.name + "/lora/" + rest; }

  settings s_;
  bench::measure_limits limits_;
  bench::figures figures_;
  std::unique_ptr<engine::gguf_file> file_;
  engine::model model_;
  std::vector<engine::lora_adapter> adapters_;
  double none_ = 0.0;  ///< tok/s of so many sequences, without room
};

settings parse(int argc, char** argv) {
  settings s;
  bench::read_options(
      argc, argv,
      {{{"--model", &s.model}, {"--name", &s.name}, {"--json", &s.json}, {"--backend", &s.backend}},
       {{"--lora", &s.rank}},
       {{"--quick", &s.quick}}});
  bench::check_common(s.model, s.name, s.backend);
  if (s.rank == 0 || s.rank > 512) throw std::invalid_argument("--lora takes a rank of 1 to 512");
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr auto usage =
      "--model FILE --name NAME [--lora RANK] [--json FILE] [--quick] [--backend cuda|host]";
  return bench::run_benchmark("bench_cuda_lora", usage, [&] {
    benchmark(parse(argc, argv)).run();
    return 0;
  });
}
