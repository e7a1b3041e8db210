// Waits for a step without burning a core: polls for a moment, then naps that grow with the wait. The next
// step is usually launched already, so a nap delays a token but never idles the device. Where the device
// waits for the host, as after a step with drafts, the wait is told how long such a step takes: it naps until
// shortly before and polls then. GPU thread.
#pragma once

#include <chrono>
#include <functional>

#include "engine/accelerator.hpp"

namespace orcd::gpu {

struct step_clock {
  std::function<std::chrono::steady_clock::time_point()> now;  ///< unset: steady_clock
  std::function<void(std::chrono::nanoseconds)> sleep;         ///< unset: the thread sleeps
};

struct step_pace {
  std::chrono::nanoseconds polling = std::chrono::microseconds(10);
  std::chrono::nanoseconds nap_least = std::chrono::microseconds(10);
  std::chrono::nanoseconds nap_most = std::chrono::microseconds(200);
  std::chrono::nanoseconds limit = std::chrono::seconds(120);  ///< longer than any step takes
  std::chrono::nanoseconds expected{0};                        ///< of this wait; 0: unknown
  /// Before and after that time it polls.
  std::chrono::nanoseconds margin = std::chrono::microseconds(80);
};

enum class step_end { done, interrupted, overdue };

/// Waits until done() is true, `interrupt` is set or the limit has passed. After each nap `healthy` is
/// called, which throws if the device has failed; done() may throw, too.
[[nodiscard]] step_end wait_for_step(const std::function<bool()>& done, const std::function<void()>& healthy,
                                     const engine::interrupt_flag& interrupt, const step_pace& pace = {},
                                     const step_clock& clock = {});
/// What is thrown where a step is overdue.
[[nodiscard]] engine::accelerator_failure overdue(const step_pace& pace);
/// Waits for a part of a step; false when interrupted. Throws when it is overdue.
[[nodiscard]] bool wait_for_pass(const std::function<bool()>& done, const std::function<void()>& healthy,
                                 const engine::interrupt_flag& interrupt);

}  // namespace orcd::gpu
