#include "gpu/plan/step_wait.hpp"

#include <algorithm>
#include <thread>

namespace orcd::gpu {

step_end wait_for_step(const std::function<bool()>& done, const std::function<void()>& healthy,
                       const engine::interrupt_flag& interrupt, const step_pace& pace,
                       const step_clock& clock) {
  const auto now = [&] { return clock.now ? clock.now() : std::chrono::steady_clock::now(); };
  const auto begin = now();
  while (!done()) {
    if (interrupt.load(std::memory_order_relaxed)) return step_end::interrupted;
    const std::chrono::nanoseconds waited = now() - begin;
    if (waited >= pace.limit) return step_end::overdue;
    if (waited < pace.polling) continue;
    const std::chrono::nanoseconds until = pace.expected - pace.margin - waited;
    if (pace.expected.count() > 0 && until.count() <= 0 && waited < pace.expected + pace.margin) continue;
    // A nap may lengthen the wait so far by a tenth, and does not reach into the time to poll.
    auto nap = std::clamp(waited / 10, pace.nap_least, pace.nap_most);
    if (pace.expected.count() > 0 && until.count() > 0) nap = std::min(until, pace.nap_most);
    if (clock.sleep) {
      clock.sleep(nap);
    } else {
      std::this_thread::sleep_for(nap);
    }
    healthy();
  }
  return step_end::done;
}

engine::accelerator_failure overdue(const step_pace& pace) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(pace.limit).count();
  return {engine::errc::cuda_error, "a step did not end within " + std::to_string(seconds) + " s"};
}

bool wait_for_pass(const std::function<bool()>& done, const std::function<void()>& healthy,
                   const engine::interrupt_flag& interrupt) {
  const step_pace pace;
  switch (wait_for_step(done, healthy, interrupt, pace)) {
    case step_end::done: return true;
    case step_end::interrupted: return false;
    case step_end::overdue: break;
  }
  throw overdue(pace);
}

}  // namespace orcd::gpu
