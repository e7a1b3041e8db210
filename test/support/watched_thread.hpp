// A thread that a test does not wait for longer than it should take: a deadlock becomes a failed assertion
// instead of a test that never ends.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <utility>

namespace orcd::test {

/// Call ends_within() before it goes: the destructor of a thread that still runs ends the process.
class watched_thread {
 public:
  explicit watched_thread(std::function<void()> what) : task_(std::move(what)), thread_(std::ref(task_)) {}
  watched_thread(const watched_thread&) = delete;
  watched_thread& operator=(const watched_thread&) = delete;

  /// Whether it has ended when this returns; waits no longer than the limit.
  [[nodiscard]] bool ends_within(std::chrono::seconds limit) {
    if (ended_.wait_for(limit) != std::future_status::ready) return false;
    thread_.join();
    return true;
  }

 private:
  std::packaged_task<void()> task_;
  std::future<void> ended_ = task_.get_future();
  std::thread thread_;
};

}  // namespace orcd::test
