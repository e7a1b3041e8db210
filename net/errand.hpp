// Work that would hold up the io thread: done on another one while a coroutine waits for it. Private to net/.
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
#include "net/server.hpp"
#include "net/signal.hpp"

namespace orcd::net {

/// How something is run on another thread; empty: it runs where it stands.
using aside = decltype(server_context::run_aside);

/// Owned by both threads; for the io thread.
template <class T>
class errand {
 public:
  using work = std::function<engine::result<T>()>;

  /// `what` owns all that it needs: the coroutine may be gone before it ends. What it throws is an internal
  /// error with the message `failure`: its own may hold parts of a request.
  [[nodiscard]] static std::shared_ptr<errand> start(const aside& run, const asio::any_io_executor& home,
                                                     work what, std::string failure) {
    const std::shared_ptr<errand> made(new errand(home, std::move(what), std::move(failure)));
    if (!run) {
      made->run();
      made->finish();
      return made;
    }
    run([made] {
      made->run();
      asio::post(made->home_, [made] { made->finish(); });
    });
    return made;
  }

  /// Whether it is done at `until`; waits no longer. What is not done then is not wanted any more.
  asio::awaitable<bool> done_by(engine::steady_time until) {
    while (!done_ && std::chrono::steady_clock::now() < until) co_await wake_.wait_until(until);
    if (!done_) abandoned_ = true;
    co_return done_;
  }
  /// Once it is done.
  [[nodiscard]] engine::result<T>& made() { return *made_; }

 private:
  errand(const asio::any_io_executor& home, work what, std::string failure)
      : home_(home), wake_(home), what_(std::move(what)), failure_(std::move(failure)) {}

  /// Any thread, once.
  void run() {
    if (abandoned_) return;
    try {
      made_.emplace(what_());
    } catch (const std::exception&) {
      made_.emplace(engine::error(engine::errc::internal, failure_));
    }
  }
  void finish() {
    done_ = made_.has_value();
    wake_.raise();
  }

  asio::any_io_executor home_;
  signal wake_;
  work what_;
  std::string failure_;
  bool done_ = false;
  std::atomic<bool> abandoned_ = false;
  std::optional<engine::result<T>> made_;  ///< the other thread's until it has posted
};

}  // namespace orcd::net
