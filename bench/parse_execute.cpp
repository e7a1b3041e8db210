// Parsing and validating an /execute body: the limit of the seed is 1 ms, ours is 50 us (M0-W-1603).
#include "net/parse_execute.hpp"

#include <benchmark/benchmark.h>

#include <string>

namespace {

/// A body of about `bytes`, with a prompt of mixed text: words, line breaks as escapes, some non-ASCII.
std::string make_body(std::size_t bytes) {
  std::string prompt;
  constexpr const char* line = "The quick brown fox says \\\"hello\\\" to 12 na\u00efve \u72d0\u72f8.\\n";
  while (prompt.size() < bytes) prompt += line;
  prompt.resize(prompt.rfind("\\n") + 2);
  return R"({"job_id":"job-0123456789","prompt":")" + prompt +
         R"(","max_tokens":100,"temperature":0.7,"seed":42,"top_k":40,"top_p":0.95,)"
         R"("stop":["</s>","\n\nUser:"]})";
}

void parse(benchmark::State& state) {
  orcd::net::execute_limits limits;
  limits.context_tokens = 8'192;
  limits.prompt_chars_max = 1'000'000;
  const auto body = make_body(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    auto request = orcd::net::parse_execute(body, limits);
    if (!request) state.SkipWithError(request.error().message.c_str());
    benchmark::DoNotOptimize(request);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(body.size()));
}
BENCHMARK(parse)->Arg(2 * 1024)->Arg(32 * 1024)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
