// How a handler has a background task done (background_task.hpp), and the ways in which it may get no result.
// io thread only. Private to net/.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/background_task.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// How a background task is to be done, and what the client is told if it is not.
struct background_plan {
  background_plan(task_length how_long, std::string failed, std::string too_late)
      : length(how_long), failure(std::move(failed)), late(std::move(too_late)) {}

  task_length length;
  std::string failure;                ///< the message when it throws
  std::string late;                   ///< the message when it takes longer than `patience`
  std::chrono::seconds patience{30};  ///< the wait in the queue included
};

/// The plan for a body that is read in the background; reading_plan.hpp says how long that takes.
[[nodiscard]] background_plan plan_reading(endpoint target, const http_request& request);

/// Whether no answer can reach the client: the connection was reset, or closed on this side. A client that
/// has only closed its sending side may still read.
[[nodiscard]] bool is_lost(connection& c) noexcept;

/// Abandons a task when the coroutine that waits for it ends.
template <class T>
class abandon_guard {
 public:
  explicit abandon_guard(background_task<T>& what) : what_(what) {}
  ~abandon_guard() { what_.abandon(); }
  abandon_guard(const abandon_guard&) = delete;
  abandon_guard& operator=(const abandon_guard&) = delete;

 private:
  background_task<T>& what_;
};

/// Runs `what` on a background thread, or here where there are none, and returns its result. `tenant` shares
/// the threads fairly with others. Errors: those of `what`; queue_full; inference_timeout with the plan's
/// `late`; internal with its `failure`; cancelled when the client is lost before the task is done.
template <class T>
asio::awaitable<engine::result<T>> run_in_background(service& s, connection& c, std::string tenant,
                                                     background_plan plan,
                                                     std::function<engine::result<T>()> what) {
  constexpr std::chrono::milliseconds look_every{250};
  task_schedule schedule;
  schedule.owner.tenant = std::move(tenant);
  schedule.owner.connection = reinterpret_cast<std::uintptr_t>(&c);
  schedule.length = plan.length;
  schedule.until = std::chrono::steady_clock::now() + plan.patience;
  const auto until = schedule.until;
  const auto started =
      background_task<T>::start(s.context.background, c.stream.get_executor(), std::move(schedule),
                                std::move(what), std::move(plan.failure));
  if (!started) co_return started.error();
  const auto work = *started;
  const abandon_guard<T> waiting(*work);
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    const bool done = co_await work->done_by(std::min(until, now + look_every));
    if (done) break;
    if (std::chrono::steady_clock::now() >= until) {
      co_return engine::error(engine::errc::inference_timeout, std::move(plan.late));
    }
    if (is_lost(c)) co_return engine::error(engine::errc::cancelled, "the client has gone");
  }
  co_return std::move(work->result());
}

}  // namespace orcd::net
