// The threads that do background tasks (background_task.hpp), in the order of a background_queue. There are
// two, and one of them takes brief tasks only, so that a schema that takes seconds to compile does not hold
// up a body that takes milliseconds to read. Both have a lower priority than the io thread and the threads
// that compute streams.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "net/jobs/background_queue.hpp"

namespace orcd::net {

class background_threads {
 public:
  explicit background_threads(background_limits limits = {}) : queue_(limits) {}
  ~background_threads() { stop(); }
  background_threads(const background_threads&) = delete;
  background_threads& operator=(const background_threads&) = delete;

  /// Starts the threads; once, before the first task. Error: worker_start_failed.
  [[nodiscard]] engine::result<void> start();
  /// Queues a task. Any thread. Errors: as background_queue::push; draining after stop().
  [[nodiscard]] engine::result<void> take(queued_task task);
  /// Waits for the tasks in progress and drops the others. A task posts its result to the io thread, so that
  /// this must be called before the io_context ends.
  void stop() noexcept;

 private:
  struct batch {
    std::vector<queued_task> unwanted;  ///< to be destroyed, after `next` was done
    std::optional<queued_task> next;
    bool over = true;
  };
  [[nodiscard]] batch await_batch(bool brief_only);
  void work(bool brief_only);

  std::mutex mutex_;
  std::condition_variable changed_;
  background_queue queue_;
  std::vector<queued_task> unwanted_;  ///< to be destroyed by one of the threads
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace orcd::net
