// Lets a few coroutines run in each round of the io thread, in the order in which they came, so that hundreds
// of bodies that arrive at once do not make every other connection wait for a part of each of them. io thread
// only. Private to net/.
#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "net/http/asio.hpp"
#include "net/http/signal.hpp"

namespace orcd::net {

class round_limiter : public std::enable_shared_from_this<round_limiter> {
 public:
  explicit round_limiter(std::size_t per_round) : per_round_(per_round), left_(per_round) {}

  /// Completes when it is this caller's turn, after a second at the latest.
  asio::awaitable<void> pass(asio::any_io_executor executor) {
    begin_rounds(executor);
    if (waiting_.empty() && left_ > 0) {
      --left_;
      co_return;
    }
    const auto turn = std::make_shared<signal>(executor);
    waiting_.push_back(turn);
    co_await turn->wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(1));
  }

 private:
  /// A round: a posted handler runs after all handlers that are ready when it is posted.
  void begin_rounds(const asio::any_io_executor& executor) {
    if (running_) return;
    running_ = true;
    asio::post(executor, [self = shared_from_this(), executor] { self->next_round(executor); });
  }
  void next_round(const asio::any_io_executor& executor) {
    running_ = false;
    const bool idle = waiting_.empty() && left_ == per_round_;
    left_ = per_round_;
    while (left_ > 0 && !waiting_.empty()) {
      // A coroutine that has ended meanwhile takes no turn.
      if (const auto turn = waiting_.front().lock()) {
        turn->raise();
        --left_;
      }
      waiting_.pop_front();
    }
    if (!idle) begin_rounds(executor);
  }

  const std::size_t per_round_;
  std::size_t left_;
  bool running_ = false;
  std::deque<std::weak_ptr<signal>> waiting_;
};

}  // namespace orcd::net
