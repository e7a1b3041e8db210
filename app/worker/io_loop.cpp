#include "app/worker/io_loop.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <new>
#include <thread>

namespace orcd::app {

void ask_for_short_turns() noexcept {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime_ns, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = 100'000;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0U));
}

namespace {

using clock = std::chrono::steady_clock;

void run_in_turns(boost::asio::io_context& io) {
  constexpr std::chrono::microseconds turn{200};
  auto begun = clock::now();
  while (io.run_one() > 0) {
    if (clock::now() - begun < turn) continue;
    ::sched_yield();
    begun = clock::now();
  }
}

}  // namespace

void run_handlers(boost::asio::io_context& io, const std::function<bool()>& gives_up,
                  const std::function<void()>& wind_up) {
  constexpr unsigned tries_max = 200;
  constexpr std::chrono::milliseconds pause{10};
  for (unsigned failures = 0;;) {
    try {
      if (failures > 0) wind_up();
      return run_in_turns(io);
    } catch (const std::bad_alloc&) {
      if (++failures > tries_max || gives_up()) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace orcd::app
