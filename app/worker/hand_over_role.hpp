// How one of several engines has another one serve, and ends on purpose: another one serves first, where one
// would answer as it does. Where none would, or the other one does not come to serve after all, it drains as
// a worker that is alone. io thread only.
//
//   request() --> active: the holder is asked --> leave(): connections, jobs, lock --> rest --> standby
//   stop()    --> the same, and then the end; drains instead where nobody follows
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <optional>

#include "app/worker/hand_over_rules.hpp"
#include "engine/base/error.hpp"
#include "engine/base/narration.hpp"

namespace orcd::app {

class hand_over_role {
 public:
  using told_function = std::function<void(const engine::result<void>&)>;
  using report_handler = std::function<void(const std::optional<net::report_frame>&)>;

  struct hooks {
    std::function<net::failover_state()> state;
    std::function<bool()> ending;              ///< the process is
    std::function<bool()> holder_has_sockets;  ///< leaving_facts
    std::function<std::size_t()> unkept;       ///< leaving_facts
    std::function<void(report_handler)> ask;  ///< who would answer as this engine does; told on the io thread
    std::function<void(net::cycle_event)> step;           ///< hand_over, left
    std::function<void()> leave_connections;              ///< not a byte goes to a client from here on
    std::function<void(std::function<void()>)> end_jobs;  ///< done, on the io thread, when the device rests
    std::function<void()> give_lock_up;
    std::function<void()> asleep;             ///< another one may serve: this one is as good as not started
    std::function<std::size_t()> sessions;    ///< that have not ended
    std::function<std::size_t()> recovering;  ///< requests that are not prepared yet
    std::function<std::chrono::nanoseconds()> lock_held_for;
    std::function<void()> allow_stop;                ///< the time that a stop by a hand-over takes
    std::function<void(const engine::error&)> fail;  ///< the process cannot go on
  };

  /// `self`: the engine's number.
  hand_over_role(boost::asio::io_context& io, std::uint32_t self, engine::narrator& narrator, hooks asked);

  /// `told` hears of the end, or why it is not done.
  void request(told_function told);
  /// The cycle's action of that name. First the clients' connections, so that not a byte is sent that the
  /// journal does not tell of; then the device comes to rest; then another engine may have the lock.
  void leave();
  /// Has `carry_out` done, after a hand-over where one is possible. A second one is done after the first.
  void stop(std::function<void()> carry_out);
  /// The engine serves, and whoever wanted to be told has been.
  void note_serving();
  /// Whether it has left its connections to another engine.
  [[nodiscard]] bool has_left() const noexcept { return left_at_ != clock::time_point{}; }

 private:
  using clock = std::chrono::steady_clock;
  [[nodiscard]] std::optional<std::string> problem() const;
  [[nodiscard]] bool is_yielding() const;
  void refuse(const std::string& why, const told_function& told);
  void give_role_up();
  void await_rest();
  void on_rest(rest_turn turn);
  void stand_by_again(bool followed);
  void stop_when_decided();
  void stop_when_recovered();
  void end_now();

  const std::uint32_t self_;
  engine::narrator& narrator_;
  const hooks asked_;
  boost::asio::steady_timer timer_;  ///< between looks at what is waited for
  bool serving_ = false;             ///< since note_serving()
  bool asks_ = false;                ///< the holder has been asked who would answer alike
  told_function told_;               ///< of the end of the hand-over that is under way
  std::function<void()> stop_;       ///< the stop that was asked for and waits for another engine to serve
  clock::time_point left_at_{};      ///< when another engine could have the lock
};

}  // namespace orcd::app
