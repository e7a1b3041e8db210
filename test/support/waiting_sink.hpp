// A recording sink for tests with threads: events come from one thread, another waits for the end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "test/support/recording_sink.hpp"

namespace orcd::test {

class waiting_sink final : public engine::event_sink {
 public:
  void offer(const engine::job_event& event) noexcept override {
    const std::lock_guard lock(mutex_);
    seen_.offer(event);
    changed_.notify_all();
  }

  /// A copy of what was seen when `enough` became true, or when the patience of 30 s ended.
  template <class Predicate>
  [[nodiscard]] recording_sink wait(const Predicate& enough) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return enough(seen_); });
    return seen_;
  }
  [[nodiscard]] recording_sink wait_end() const {
    return wait([](const recording_sink& seen) { return seen.ended(); });
  }
  [[nodiscard]] recording_sink wait_start() const {
    return wait([](const recording_sink& seen) { return seen.started(); });
  }
  [[nodiscard]] recording_sink now() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  recording_sink seen_;
};

}  // namespace orcd::test
