#include "net/jobs/background_threads.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::steady_clock;

/// Lowers this thread's priority: it gets about a tenth of the time of a thread of the host backend that
/// wants the same processor, so that streams keep their pace and background tasks still get done. Where the
/// system does not allow it the priority stays as it is.
void yield_to_streams() noexcept {
  constexpr int less_urgent = 10;
  const auto self = static_cast<id_t>(gettid());
  static_cast<void>(setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + less_urgent));
}

constexpr std::chrono::milliseconds pause_after_failure{10};

}  // namespace

result<void> background_threads::start() {
  try {
    for (const bool brief_only : {false, true}) {
      threads_.emplace_back([this, brief_only] { work(brief_only); });
    }
  } catch (const std::system_error& failure) {
    stop();
    return error(errc::worker_start_failed,
                 std::string("cannot start a thread: ") + failure.code().message());
  }
  return {};
}

result<void> background_threads::take(queued_task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return error(errc::draining, "the worker is stopping");
    auto taken = queue_.push(task);
    if (!taken) {
      auto unwanted = queue_.take_unwanted(steady_clock::now());
      if (unwanted.empty()) return taken;
      std::move(unwanted.begin(), unwanted.end(), std::back_inserter(unwanted_));
      taken = queue_.push(task);
      if (!taken) return taken;
    }
  }
  changed_.notify_all();
  return {};
}

/// Waits for the next task, or for tasks to destroy.
background_threads::batch background_threads::await_batch(bool brief_only) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || queue_.has_next(brief_only) || !unwanted_.empty(); });
  batch out;
  if (stopping_) return out;
  out.unwanted = std::move(unwanted_);
  unwanted_.clear();
  auto late = queue_.take_unwanted(steady_clock::now());
  std::move(late.begin(), late.end(), std::back_inserter(out.unwanted));
  out.next = queue_.pop(brief_only);
  out.over = false;
  return out;
}

void background_threads::work(bool brief_only) {
  yield_to_streams();
  for (;;) {
    try {
      const batch mine = await_batch(brief_only);
      if (mine.over) return;
      if (mine.next) mine.next->work();
    } catch (const std::exception&) {
      // Out of memory: the result is lost, and the coroutine that waits for it gives up at its time limit.
      std::this_thread::sleep_for(pause_after_failure);
    }
  }
}

void background_threads::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace orcd::net
