// Work that would hold up the io thread: a background thread does it while a coroutine of the io thread waits
// for the result. Private to net/.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "net/http/signal.hpp"
#include "net/jobs/background_queue.hpp"

namespace orcd::net {

/// How a task is queued: for which client, how long it takes, and until when its result is wanted.
struct task_schedule {
  task_owner owner;
  task_length length = task_length::brief;
  engine::steady_time until{};
};

/// Shared by the io thread and the thread that does the work. The public members are for the io thread.
template <class T>
class background_task {
 public:
  using work = std::function<engine::result<T>()>;

  /// Queues `what`, which must own all that it needs: the coroutine may be gone before it ends. It is run and
  /// then destroyed on the background thread; with an empty `run`, here. An exception becomes an internal
  /// error with the message `failure`, because what() might quote the request. Error: as
  /// background_queue::push.
  [[nodiscard]] static engine::result<std::shared_ptr<background_task>> start(
      const background_runner& run, const asio::any_io_executor& home, task_schedule schedule, work what,
      std::string failure) {
    std::shared_ptr<background_task> made(new background_task(home, std::move(what), std::move(failure)));
    if (!run) {
      made->run();
      made->finish();
      return made;
    }
    queued_task task;
    task.owner = std::move(schedule.owner);
    task.length = schedule.length;
    task.until = schedule.until;
    task.abandoned = made->abandoned_;
    task.work = [made]() mutable {
      made->run();
      post_result(std::move(made));
    };
    if (const auto taken = run(std::move(task)); !taken) return taken.error();
    return made;
  }

  /// Waits until the work is done, but not beyond `until`; returns whether it is done.
  asio::awaitable<bool> done_by(engine::steady_time until) {
    while (!done_ && std::chrono::steady_clock::now() < until) co_await wake_.wait_until(until);
    co_return done_;
  }
  /// The result is not wanted any more: work that has not begun is skipped.
  void abandon() noexcept { *abandoned_ = true; }
  /// The result, once done_by() has returned true.
  [[nodiscard]] engine::result<T>& result() { return *result_; }

 private:
  background_task(const asio::any_io_executor& home, work what, std::string failure)
      : home_(home), wake_(home), what_(std::move(what)), failure_(std::move(failure)) {}

  /// Does the work; once, on any thread.
  void run() {
    const work what = std::move(what_);
    if (*abandoned_) return;
    try {
      result_.emplace(what());
    } catch (const std::exception&) {
      result_.emplace(engine::error(engine::errc::internal, failure_));
    }
  }
  /// Moves the last reference of this thread to the io thread, because the timer must be destroyed there.
  static void post_result(std::shared_ptr<background_task> done) {
    const auto home = done->home_;
    asio::post(home, [done = std::move(done)] { done->finish(); });
  }
  void finish() {
    done_ = result_.has_value();
    wake_.raise();
  }

  asio::any_io_executor home_;
  signal wake_;
  work what_;
  std::string failure_;
  bool done_ = false;
  std::shared_ptr<std::atomic<bool>> abandoned_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<engine::result<T>> result_;  ///< written by the background thread before it posts
};

}  // namespace orcd::net
