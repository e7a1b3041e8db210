// From a sampled token to its written line: how long the GPU thread is in the sink of an answer, for 100,000
// tokens at the pace of a fast model (one each 50 us), into a pipe that another thread reads. The limit is 20
// us at the 99th percentile. By the clock, and by the thread's own time, which other programs on the machine
// do not lengthen. Usage: bench_pipe_lines [TOKENS]
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "app/pipe/answer_sink.hpp"

namespace {

using namespace orcd;
using clock_type = std::chrono::steady_clock;

constexpr std::chrono::microseconds pace{50};

void read_all(int from) {
  std::array<char, 4096> bytes;
  while (::read(from, bytes.data(), bytes.size()) > 0) {
  }
}

/// In us, of this thread alone.
double own_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

double at(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

void report(const char* what, std::vector<double>& took) {
  std::sort(took.begin(), took.end());
  std::printf("token to line, %s, us: p50 %.2f, p99 %.2f, p99.9 %.2f, worst %.1f of %zu\n", what,
              at(took, 0.5), at(took, 0.99), at(took, 0.999), took.back(), took.size());
}

}  // namespace

int main(int argc, char** argv) {
  const auto tokens = static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000UL);
  std::array<int, 2> ends{};
  if (tokens == 0 || ::pipe(ends.data()) != 0) return 1;
  std::thread reader(read_all, ends[0]);
  app::token_output output(ends[1]);
  app::answer_sink sink(app::answer(0, 1, app::limit_style::end_token, 0), tokens, output,
                        ::eventfd(0, EFD_NONBLOCK));
  std::vector<double> by_clock, own;
  by_clock.reserve(tokens);
  own.reserve(tokens);
  for (std::uint32_t i = 0; i < tokens; ++i) {
    const auto next = clock_type::now() + pace;
    while (clock_type::now() < next) {
    }
    const auto begin = clock_type::now();
    const double own_begin = own_time();
    sink.offer(engine::token_event{static_cast<engine::token_id>(100'000 + i % 28'000), i});
    own.push_back(own_time() - own_begin);
    by_clock.push_back(std::chrono::duration<double, std::micro>(clock_type::now() - begin).count());
    if (output.waits()) output.flush();
  }
  ::close(ends[1]);
  reader.join();
  report("by the clock", by_clock);
  report("own time", own);
  return 0;
}
