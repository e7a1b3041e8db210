// Tokens per second of the host backend on one model: a prompt prefilled in chunks, then single-token
// decoding. Prints a table line and a JSON line.
//   bench_host_decode MODEL.gguf [prompt tokens] [decoded tokens] [threads] [chunk tokens]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/host/host_backend.hpp"

namespace {

using namespace orcd;
using steady = std::chrono::steady_clock;

struct settings {
  std::string model;
  std::uint32_t prompt = 256;
  std::uint32_t decoded = 128;
  unsigned threads = 0;
  std::uint32_t chunk = gpu::host_backend_options{}.chunk_tokens;
};

struct figures {
  double prefill_seconds = 0.0;
  double longest_chunk_seconds = 0.0;
  double decode_seconds = 0.0;
};

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

figures measure(engine::accelerator& device, const settings& s, std::uint32_t vocab) {
  figures f;
  const engine::interrupt_flag interrupt{false};
  const engine::sampling_params greedy{.temperature = 0.0F};
  const engine::sample_request request{.params = &greedy, .draw = 0.0};
  std::vector<engine::sampled_token> sampled;
  std::vector<engine::token_id> prompt;
  for (std::uint32_t i = 0; i < s.prompt; ++i)
    prompt.push_back(static_cast<engine::token_id>(i * 7919U % vocab));

  const auto begin = steady::now();
  for (std::uint32_t at = 0; at < s.prompt; at += device.chunk_tokens()) {
    const std::uint32_t count = std::min(device.chunk_tokens(), s.prompt - at);
    const engine::sequence_step part{.slot = engine::slot_id{0},
                                     .position = at,
                                     .tokens = {prompt.data() + at, count},
                                     .sample = at + count == s.prompt ? &request : nullptr};
    const auto chunk_begin = steady::now();
    if (!device.step({&part, 1}, interrupt, sampled)) std::abort();
    f.longest_chunk_seconds = std::max(f.longest_chunk_seconds, seconds_since(chunk_begin));
  }
  f.prefill_seconds = seconds_since(begin);

  const auto decode_begin = steady::now();
  for (std::uint32_t i = 0; i < s.decoded; ++i) {
    const engine::token_id last = sampled.back().token;
    const engine::sequence_step one{
        .slot = engine::slot_id{0}, .position = s.prompt + i, .tokens = {&last, 1}, .sample = &request};
    if (!device.step({&one, 1}, interrupt, sampled)) std::abort();
  }
  f.decode_seconds = seconds_since(decode_begin);
  device.release(engine::slot_id{0});
  return f;
}

void print(const settings& s, const figures& f) {
  const double prefill = s.prompt / f.prefill_seconds;
  const double decode = s.decoded / f.decode_seconds;
  const std::string isa(gpu::host_isa_name());
  std::printf("isa %s, threads %u: decode %.1f tokens/s, prefill %.1f tokens/s, longest chunk %.1f ms\n",
              isa.c_str(), s.threads, decode, prefill, f.longest_chunk_seconds * 1e3);
  std::printf(
      "{\"bench\":\"host_decode\",\"isa\":\"%s\",\"threads\":%u,\"chunk_tokens\":%u,\"prompt_tokens\":%u,"
      "\"decoded_tokens\":%u,\"decode_tokens_per_s\":%.2f,\"prefill_tokens_per_s\":%.2f,"
      "\"longest_chunk_ms\":%.2f}\n",
      isa.c_str(), s.threads, s.chunk, s.prompt, s.decoded, decode, prefill, f.longest_chunk_seconds * 1e3);
}

int run(const settings& s) {
  const auto file = engine::gguf_file::open(s.model);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().message.c_str()), 1;
  const std::uint32_t context = s.prompt + s.decoded;
  const auto loaded = engine::load_model(*file, context);
  if (!loaded) return std::fprintf(stderr, "%s\n", loaded.error().message.c_str()), 1;
  const auto device = gpu::make_host_backend({.threads = s.threads, .chunk_tokens = s.chunk});
  const auto plan =
      device->load(*loaded, {.slots = 1, .context_tokens = context, .banned_tokens = {}}, [](unsigned) {});
  if (!plan) return std::fprintf(stderr, "%s\n", plan.error().message.c_str()), 1;
  print(s, measure(*device, s, loaded->spec.vocab));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL.gguf [prompt tokens] [decoded tokens] [threads] [chunk tokens]\n",
                 argv[0]);
    return 2;
  }
  settings s{.model = argv[1]};
  const auto number = [&](int index, std::uint32_t fallback) {
    return argc > index ? static_cast<std::uint32_t>(std::strtoul(argv[index], nullptr, 10)) : fallback;
  };
  s.prompt = std::max(1U, number(2, s.prompt));
  s.decoded = std::max(1U, number(3, s.decoded));
  s.threads = number(4, s.threads);
  s.chunk = std::max(1U, number(5, s.chunk));
  return run(s);
}
