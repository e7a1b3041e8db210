// Decoding, prefill, loading and VRAM of the CUDA backend on one model, with the streaming-read ceiling of
// the same run. Prints a table and writes a flat JSON object of figures.
//   bench_cuda_decode --model FILE --name NAME [--json FILE] [--commit ID] [--quick] [--only PREFIX]
//                     [--chunk N] [--backend cuda|host] [--contexts] [--profile]
// --contexts measures 8 to 256 sequences at contexts of 16, 1,024 and 8,192 in place of short batches.
// --profile shows a profiler nothing but what is timed: ncu --profile-from-start off.
// The host backend is there to try the benchmark itself; it measures no ceiling and no VRAM.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/decode/command_line.hpp"
#include "bench/decode/figures.hpp"
#include "bench/decode/measure.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "engine/model/model_tensors.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/host/host_backend.hpp"
#include "kernels/device/stream_read.hpp"

namespace {

using namespace orcd;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t short_prompt = 16;  ///< "context 0": what a decode starts from
constexpr std::uint32_t batch_max = 64;
constexpr double seconds_max = 120.0;  ///< no measurement begins later than this after the first load

struct settings {
  std::string model, name, json, commit = "unknown", backend = "cuda";
  std::string only;       ///< how the names of what is measured begin, like decode/b32; empty: all
  bool contexts = false;  ///< batches at long contexts instead of short ones
  bool quick = false;
  bool profile = false;     ///< a profiler sees nothing but what is timed (ncu --profile-from-start off)
  std::uint32_t chunk = 0;  ///< 0 = the backend's own

  [[nodiscard]] bool cuda() const { return backend == "cuda"; }
};

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  bool module = false;
  while (file >> word) {
    if (module && word.find_first_not_of("0123456789.") == std::string::npos) return word;
    module |= word == "Module";
  }
  int version = 0;
  ORCD_CUDA(cudaDriverGetVersion(&version));
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Bytes a second of reading 2 GiB once: median of nine, after two that warm up.
double measure_ceiling() {
  constexpr std::uint64_t bytes = 2ULL << 30U;
  constexpr int repeats = 9;
  constexpr int warm_up = 2;
  void* memory = nullptr;
  void* sink = nullptr;
  ORCD_CUDA(cudaMalloc(&memory, bytes));
  ORCD_CUDA(cudaMalloc(&sink, 4096));
  ORCD_CUDA(cudaMemset(memory, 0x5A, bytes));
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ORCD_CUDA(cudaEventCreate(&begin));
  ORCD_CUDA(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < warm_up + repeats; ++i) {
    ORCD_CUDA(cudaEventRecord(begin));
    ORCD_CUDA(kernels::launch_stream_read(static_cast<std::byte*>(memory), bytes, static_cast<float*>(sink),
                                          nullptr));
    ORCD_CUDA(cudaEventRecord(end));
    ORCD_CUDA(cudaEventSynchronize(end));
    float ms = 0.0F;
    ORCD_CUDA(cudaEventElapsedTime(&ms, begin, end));
    if (i >= warm_up) times.push_back(ms);
  }
  ORCD_CUDA(cudaEventDestroy(begin));
  ORCD_CUDA(cudaEventDestroy(end));
  ORCD_CUDA(cudaFree(sink));
  ORCD_CUDA(cudaFree(memory));
  std::sort(times.begin(), times.end());
  return bytes / (times[times.size() / 2] * 1e-3);
}

/// Reads the file once, so that loading finds it in the page cache.
void read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> block(8U << 20U);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
  }
}

/// A model with its file, on an accelerator.
struct loaded {
  std::unique_ptr<engine::gguf_file> file;
  engine::model model;
  std::unique_ptr<engine::accelerator> device;
  engine::memory_plan plan;
  std::uint32_t context = 0;
  double seconds = 0.0;  ///< from open() to the end of load()
};

loaded load(const settings& s, std::uint32_t slots, std::uint32_t context_max) {
  const auto begin = steady::now();
  loaded out;
  auto file = engine::gguf_file::open(s.model);
  if (!file) throw std::runtime_error(file.error().message);
  out.file = std::make_unique<engine::gguf_file>(std::move(*file));
  auto model = engine::load_model(*out.file);
  if (!model) throw std::runtime_error(model.error().message);
  out.model = std::move(*model);
  out.context = std::min(context_max, out.model.spec.context_length);
  if (s.cuda()) {
    gpu::cuda_backend_options options;
    options.end = gpu::device_end::keep;
    if (s.chunk != 0) options.chunk_tokens = s.chunk;
    out.device = gpu::make_cuda_backend(options);
  } else {
    out.device = gpu::make_host_backend();
  }
  engine::accelerator_config config{slots, out.context, {}};
  config.window_groups = false;  // slots are used without begin()
  const auto plan = out.device->load(out.model, config, [](unsigned) {});
  if (!plan) throw std::runtime_error(plan.error().message);
  out.plan = *plan;
  out.seconds = seconds_since(begin);
  return out;
}

class benchmark {
 public:
  explicit benchmark(const settings& s) : s_(s) {
    if (s_.quick) limits_ = {.runs = 1, .tokens = 32, .seconds = 2.0};
    if (!s_.profile) return;
    limits_.timed = [](bool begins) { ORCD_CUDA(begins ? cudaProfilerStart() : cudaProfilerStop()); };
  }

  void run() {
    read_file(s_.model);
    begin_ = steady::now();
    one_sequence();
    long_prompt();
    if (s_.contexts) {
      several_contexts();
    } else {
      several_sequences();
      longest_context();
    }
    save();
  }

 private:
  [[nodiscard]] std::string key(const std::string& rest) const { return s_.name + "/" + rest; }

  /// After every measurement, so that a later failure loses none.
  void save() const {
    if (!s_.json.empty()) figures_.write(s_.json);
  }

  void one_sequence() {
    const loaded l = load(s_, 1, 4096);
    describe(l);
    const std::uint32_t vocab = l.model.spec.vocab;
    for (const std::uint32_t context : {0U, 512U, 3500U}) {
      const std::uint32_t prompt = std::max(context, short_prompt);
      if (bench::positions_needed(prompt, limits_) > l.context || (s_.quick && context > 512)) continue;
      const std::string what = "decode/b1/c" + std::to_string(context);
      measure(what, [&] { return bench::measure_decode(*l.device, vocab, 1, prompt, limits_); });
      add_shares(l, what, prompt + limits_.tokens / 2);
    }
    for (const std::uint32_t tokens : {512U, 2048U}) {
      if (tokens > l.context) continue;
      measure("prefill/" + std::to_string(tokens),
              [&] { return bench::measure_prefill(*l.device, vocab, tokens, limits_); });
    }
  }

  /// A prompt of which attention is a large part.
  void long_prompt() {
    constexpr std::uint32_t tokens = 8192;
    const std::string what = "prefill/" + std::to_string(tokens);
    if (s_.quick || !s_.cuda() || !what.starts_with(s_.only)) return;
    const loaded l = load(s_, 1, tokens);
    if (l.context < tokens)
      return std::printf("%s: the model's context is %u\n", what.c_str(), l.context), void();
    measure(what, [&] { return bench::measure_prefill(*l.device, l.model.spec.vocab, tokens, limits_); });
  }

  void several_sequences() {
    if (seconds_since(begin_) > seconds_max) return std::puts("out of time: no batches"), void();
    const loaded l = load(s_, batch_max, 512);
    add("load_again_s", l.seconds);
    add_vram(l, "/b" + std::to_string(batch_max));
    for (std::uint32_t sequences = 2; sequences <= batch_max; sequences *= 2) {
      measure("decode/b" + std::to_string(sequences) + "/c0", [&] {
        return bench::measure_decode(*l.device, l.model.spec.vocab, sequences, short_prompt, limits_);
      });
    }
  }

  /// Many sequences that all have long contexts, as far as memory and the model's context go.
  void several_contexts() {
    for (const std::uint32_t sequences : {8U, 64U, 128U, 256U}) {
      for (const std::uint32_t context : {short_prompt, 1024U, 8192U}) {
        const std::string what = "decode/b" + std::to_string(sequences) + "/c" + std::to_string(context);
        if (what.starts_with(s_.only)) measure_contexts(what, sequences, context);
      }
    }
  }

  void measure_contexts(const std::string& what, std::uint32_t sequences, std::uint32_t context) {
    try {
      const loaded l = load(s_, sequences, bench::positions_needed(context, limits_));
      if (l.context < bench::positions_needed(context, limits_))
        return std::printf("%s: the model's context is %u\n", what.c_str(), l.context), void();
      const engine::model_spec& spec = l.model.spec;
      measure(what,
              [&] { return bench::measure_decode(*l.device, spec.vocab, sequences, context, limits_); });
      if (ceiling_ <= 0.0 || last_.runs == 0) return;
      // With experts, many sequences need nearly all weights.
      const std::uint64_t weights = spec.experts > 0 ? l.plan.weights_bytes : weight_bytes_;
      const std::uint64_t cache = sequences * engine::kv_bytes_read(spec, context + limits_.tokens / 2);
      const double floor_ms = 1e3 * static_cast<double>(weights + cache) / ceiling_;
      add(what + "/share_of_floor", floor_ms / last_.step_ms);
    } catch (const std::runtime_error& problem) {
      std::printf("%s: %s\n", what.c_str(), problem.what());
    }
  }

  /// One sequence at the end of the longest context that the model has been made for.
  void longest_context() {
    if (s_.quick || !s_.cuda()) return;
    const std::string what = "decode/b1/cmax";
    if (!what.starts_with(s_.only)) return;
    if (seconds_since(begin_) > seconds_max) return std::printf("%s: out of time\n", what.c_str()), void();
    const loaded l = load(s_, 1, UINT32_MAX);
    const std::uint32_t needed = bench::positions_needed(0, limits_);
    if (l.context <= needed) return std::printf("%s: no room\n", what.c_str()), void();
    const std::uint32_t prompt = l.context - needed;
    add(what + "/context", std::uint64_t{prompt});
    measure(what, [&] { return bench::measure_decode(*l.device, l.model.spec.vocab, 1, prompt, limits_); });
    add_shares(l, what, prompt + limits_.tokens / 2);
  }

  /// Loading time and memory, and what the machine is.
  void describe(const loaded& l) {
    weight_bytes_ = engine::bytes_read_per_token(l.model);
    add("load_s", l.seconds);
    add("weights_bytes", l.plan.weights_bytes);
    add("kv_bytes", l.plan.kv_bytes);
    add("workspace_bytes", l.plan.workspace_bytes + l.plan.logits_bytes);
    add("context_tokens", std::uint64_t{l.context});
    add("weight_bytes_per_token", weight_bytes_);
    figures_.add("commit", s_.commit);
    if (!s_.cuda()) return;
    add_vram(l, "");
    cudaDeviceProp properties{};
    ORCD_CUDA(cudaGetDeviceProperties(&properties, 0));
    figures_.add("gpu", properties.name);
    figures_.add("driver", driver_version());
    ceiling_ = measure_ceiling();
    figures_.add("ceiling_tb_s", ceiling_ / 1e12);
    std::printf("%s, driver %s, commit %s: streaming read %.3f TB/s\n", properties.name,
                driver_version().c_str(), s_.commit.c_str(), ceiling_ / 1e12);
  }

  /// The device's memory in use, and what of it is neither weights nor cache.
  void add_vram(const loaded& l, const std::string& suffix) {
    if (!s_.cuda()) return;
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ORCD_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    const std::uint64_t used = total_bytes - free_bytes;
    add("vram_used_bytes" + suffix, used);
    add("vram_besides_weights_and_kv_mib" + suffix,
        (static_cast<double>(used) - static_cast<double>(l.plan.weights_bytes + l.plan.kv_bytes)) /
            (1 << 20));
  }

  template <class T>
  void add(const std::string& name, T value) {
    figures_.add(key(name), value);
    std::printf("%-40s %14.6g\n", key(name).c_str(), static_cast<double>(value));
  }

  /// One row of the table; measurements that come too late are left out by name.
  template <class F>
  void measure(const std::string& what, F run) {
    last_ = {};
    if (!what.starts_with(s_.only)) return;
    if (seconds_since(begin_) > seconds_max) {
      std::printf("%-40s out of time\n", key(what).c_str());
      return;
    }
    last_ = run();
    figures_.add(key(what + "/tok_s"), last_.tok_s);
    figures_.add(key(what + "/ms"), last_.step_ms);
    figures_.add(key(what + "/spread"), last_.spread);
    figures_.add(key(what + "/reproducible"), last_.reproducible);
    std::printf("%-40s %14.1f tok/s %10.3f ms, %u runs, spread %.1f %%%s\n", key(what).c_str(), last_.tok_s,
                last_.step_ms, last_.runs, 100 * last_.spread,
                last_.reproducible ? "" : "; RUNS DIFFER IN THEIR TOKENS");
    std::fflush(stdout);
    save();
  }

  /// Of the last measurement: the share of the ceiling that reading the weights takes, and with K and V.
  void add_shares(const loaded& l, const std::string& what, std::uint32_t positions) {
    if (ceiling_ <= 0.0 || last_.runs == 0) return;
    const double weights = static_cast<double>(weight_bytes_);
    const double cache = static_cast<double>(engine::kv_bytes_read(l.model.spec, positions));
    add(what + "/share", last_.tok_s * weights / ceiling_);
    add(what + "/share_with_kv", last_.tok_s * (weights + cache) / ceiling_);
  }

  settings s_;
  bench::measure_limits limits_;
  bench::figures figures_;
  bench::rate last_;
  steady::time_point begin_;
  std::uint64_t weight_bytes_ = 0;
  double ceiling_ = 0.0;  ///< bytes a second; 0 on the host
};

settings parse(int argc, char** argv) {
  settings s;
  bench::read_options(argc, argv,
                      {{{"--model", &s.model},
                        {"--name", &s.name},
                        {"--json", &s.json},
                        {"--backend", &s.backend},
                        {"--commit", &s.commit},
                        {"--only", &s.only}},
                       {{"--chunk", &s.chunk}},
                       {{"--quick", &s.quick}, {"--contexts", &s.contexts}, {"--profile", &s.profile}}});
  bench::check_common(s.model, s.name, s.backend);
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr auto usage =
      "--model FILE --name NAME [--json FILE] [--commit ID] [--quick] [--only PREFIX] [--chunk N] "
      "[--contexts] [--profile] [--backend cuda|host]";
  return bench::run_benchmark("bench_cuda_decode", usage, [&] {
    benchmark(parse(argc, argv)).run();
    return 0;
  });
}
