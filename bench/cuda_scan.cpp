// What the scan of a recurrent layer takes: decoding sequences, each with one row, and prompts. Prints
// microseconds a launch, of decoding also the share of the ceiling that reading the states is, and of prompts
// microseconds a token.
//   bench_cuda_scan [--heads N]
// Heads have keys and values of 128, two heads of values a head of keys; N is of values, 32 unless given.
// States of 64 sequences are more than the card's L2 holds.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "bench/cuda_calls.hpp"
#include "kernels/device/stream_read.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace {

using namespace orcd;
using bench::check;

constexpr std::uint32_t length = 128, states = 2, rows = states * kernels::chunk_rows;
constexpr int launches = 20;

float* random_values(std::uint64_t count) {
  std::vector<float> values(std::min<std::uint64_t>(count, 1 << 20));
  std::mt19937 random(7);
  for (float& v : values) v = static_cast<float>(random() % 2'001) / 10'000.0F - 0.1F;
  auto* const out = bench::allocate<float>(count);
  for (std::uint64_t at = 0; at < count; at += values.size()) {
    const std::uint64_t some = std::min<std::uint64_t>(values.size(), count - at);
    check(cudaMemcpy(out + at, values.data(), some * sizeof(float), cudaMemcpyHostToDevice), "values");
  }
  return out;
}

template <class T>
T* copied(const std::vector<T>& from) {
  auto* const out = bench::allocate<T>(from.size());
  check(cudaMemcpy(out, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return out;
}

/// `sequences` with `tokens` each: one at an open chunk's fourth place, or a prompt from its beginning.
class scan_bench {
 public:
  scan_bench(std::uint32_t heads, std::uint32_t sequences, std::uint32_t tokens)
      : sequences_(sequences), tokens_(tokens) {
    const std::uint32_t columns = sequences * tokens, keys = heads / 2 * length, values = heads * length;
    std::vector<kernels::step_token> steps;
    for (std::uint32_t c = 0; c < columns; ++c) {
      const std::uint32_t position = tokens == 1 ? 1'003 : c % tokens;
      steps.push_back({0, static_cast<std::int32_t>(position), static_cast<std::int32_t>(c / tokens)});
    }
    kernels::scan_args& a = args_;
    a.pass.steps = copied(steps);
    a.pass.wanted = bench::allocate<kernels::wanted_state>(columns);
    auto* const runs = bench::allocate<kernels::device_run>(columns);
    auto* const count = bench::allocate<std::int32_t>(1);
    a.pass.runs = runs;
    a.pass.run_count = count;
    a.pass.columns = columns;
    a.pass.runs_max = sequences;
    a.pass.short_runs = tokens == 1;
    check(kernels::launch_find_runs({a.pass.steps, columns, runs, count}, nullptr), "runs");
    kernels::kept_memory& kept = a.kept;
    kept.state_values = std::uint64_t{values} * length;
    kept.keys = states * kept.state_values;
    kept.updates = kept.keys + rows * keys;
    kept.decays = kept.updates + rows * values;
    kept.inputs = kept.decays + rows * heads;
    kept.slot_stride = kept.inputs;
    kept.state_count = states;
    kept.rows = rows;
    kept.slots = random_values(kept.slot_stride * sequences);
    kept.pages = kept.slots;
    a.stride = 2 * values + 2 * keys;
    float* const mixed = random_values(std::uint64_t{columns} * a.stride);
    a.out = mixed;
    a.queries = mixed + values;
    a.keys = a.queries + keys;
    a.values = a.keys + keys;
    a.factors = random_values(std::uint64_t{columns} * heads);
    a.decays = bench::allocate<float>(std::uint64_t{columns} * heads);
    a.key_heads = heads / 2;
    a.value_heads = heads;
    a.key_length = a.value_length = length;
    a.in_turn = a.delta_net = true;
  }

  void run(double ceiling) const {
    const auto launch = [&](int times) {
      for (int i = 0; i < times; ++i) check(kernels::launch_scan(args_, nullptr), "scan");
    };
    launch(3);
    const double us = 1e3 * static_cast<double>(bench::ms_of([&] { launch(launches); })) / launches;
    std::printf("scan %3u x %4u: %8.2f us", sequences_, tokens_, us);
    const double bytes = static_cast<double>(args_.kept.state_values) * sizeof(float) * sequences_;
    if (tokens_ == 1)
      std::printf(", %4.1f %% of the ceiling\n", 100.0 * bytes / (ceiling * 1e6) / us);
    else
      std::printf(", %.3f us a token\n", us / (sequences_ * tokens_));
  }

 private:
  std::uint32_t sequences_, tokens_;
  kernels::scan_args args_;
};

/// TB/s of reading.
double measure_ceiling() {
  constexpr std::uint64_t bytes = 1ULL << 31;
  const auto* const data = bench::allocate<std::byte>(bytes);
  auto* const sink = bench::allocate<float>(1'024);
  const auto read = [&] { check(kernels::launch_stream_read(data, bytes, sink, nullptr), "read"); };
  read();
  return static_cast<double>(bytes) / static_cast<double>(bench::ms_of(read)) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint32_t heads = 32;
  if (argc == 3 && std::strcmp(argv[1], "--heads") == 0)
    heads = static_cast<std::uint32_t>(std::atoi(argv[2]));
  if ((argc != 1 && argc != 3) || heads < 2 || heads > 1'024 || heads % 2 != 0) {
    std::fprintf(stderr, "usage: bench_cuda_scan [--heads N]   N: even, 2 to 1024\n");
    return 2;
  }
  const double ceiling = measure_ceiling();
  std::printf("%u heads; streaming read %.3f TB/s\n", heads, ceiling);
  for (const auto& [sequences, tokens] : {std::pair{1U, 1U}, {8U, 1U}, {64U, 1U}, {1U, 2'048U}, {8U, 512U}})
    scan_bench(heads, sequences, tokens).run(ceiling);
  return 0;
}
