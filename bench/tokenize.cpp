// Tokenizer speed on one thread: loads a vocabulary, encodes a text file several times, prints figures.
//   bench_tokenize VOCABULARY TEXT [ROUNDS [PRE]]
// VOCABULARY is a GGUF file or a tokenizer.json; PRE counts instead of a GGUF's tokenizer.ggml.pre. The best
// round counts; bench/tokenizer_bench.py runs it side by side with the `tokenizers` package.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>

#include "engine/text/tokenizer.hpp"

using namespace orcd::engine;

namespace {

using seconds = std::chrono::duration<double>;

std::string read(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A line of /proc/self/status in MiB: "VmHWM:" is the peak, "VmRSS:" the present size.
double memory_mb(const std::string& field) {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kb = 0;
    if (word == field && in >> kb) return kb / 1024;
  }
  return 0;
}

result<std::unique_ptr<tokenizer>> load(const std::string& path, const std::string& json,
                                        const std::string& pre) {
  if (path.ends_with(".json")) return make_json_tokenizer(json);
  const auto file = gguf_file::open(path);
  if (!file) return file.error();
  return make_gguf_tokenizer(*file, pre);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_tokenize VOCABULARY TEXT [ROUNDS [PRE]]\n");
    return 2;
  }
  const std::string text = read(argv[2]);
  const std::string path = argv[1];
  std::string json = path.ends_with(".json") ? read(argv[1]) : std::string();
  const auto before = std::chrono::steady_clock::now();
  const auto made = load(path, json, argc > 4 ? argv[4] : "");
  if (!made || text.empty()) {
    std::fprintf(stderr, "%s\n", text.empty() ? "the text is empty" : made.error().message.c_str());
    return 1;
  }
  const double load_s = seconds(std::chrono::steady_clock::now() - before).count();
  json = {};
  const double held_mb = memory_mb("VmRSS:");
  double best = std::numeric_limits<double>::max();
  std::size_t tokens = 0;
  for (int round = argc > 3 ? std::atoi(argv[3]) : 5; round > 0; --round) {
    const auto start = std::chrono::steady_clock::now();
    tokens = (*made)->encode(text, {false, true}).size();
    best = std::min(best, seconds(std::chrono::steady_clock::now() - start).count());
  }
  std::printf(
      "{\"tokens\": %zu, \"mb_per_s\": %.3f, \"load_ms\": %.1f, \"loaded_mb\": %.1f, \"peak_mb\": %.1f}\n",
      tokens, static_cast<double>(text.size()) / 1e6 / best, load_s * 1e3, held_mb, memory_mb("VmHWM:"));
  return 0;
}
