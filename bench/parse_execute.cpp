// Parsing and validating an /execute body: the requirement (M0-W-1603) is 1 ms, our own limit 50 us.
#include "net/execute/parse_execute.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

/// What prompts are mostly made of: lines of words, each ended by an escaped line break.
constexpr const char* prose =
    "You are a helpful assistant. Write a haiku about GPU computing, in plain words.\\n";
/// Hard text: an escape or a character outside ASCII every ten bytes.
constexpr const char* dense = "The quick brown fox says \\\"hello\\\" to 12 na\u00efve \u72d0\u72f8.\\n";

/// A body whose prompt has about `bytes` of this line.
std::string make_body(std::size_t bytes, const char* line) {
  std::string prompt;
  while (prompt.size() < bytes) prompt += line;
  prompt.resize(prompt.rfind("\\n") + 2);
  return R"({"job_id":"job-0123456789","prompt":")" + prompt +
         R"(","max_tokens":100,"temperature":0.7,"seed":42,"top_k":40,"top_p":0.95,)"
         R"("stop":["</s>","\n\nUser:"]})";
}

void parse(benchmark::State& state, const char* line) {
  orcd::net::request_limits limits;
  limits.context_tokens = 8'192;
  limits.prompt_chars_max = 1'000'000;
  const auto body = make_body(static_cast<std::size_t>(state.range(0)), line);
  for (auto _ : state) {
    auto request = orcd::net::parse_execute(body, limits);
    if (!request) state.SkipWithError(request.error().message.c_str());
    benchmark::DoNotOptimize(request);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(body.size()));
}
BENCHMARK_CAPTURE(parse, prose, prose)->Arg(2 * 1024)->Arg(32 * 1024)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(parse, dense, dense)->Arg(2 * 1024)->Arg(32 * 1024)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
