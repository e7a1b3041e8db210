// How the worker ends: what shutdown_fsm decides, with timers and words. io thread only.
//
//   handle() --> begin_drain --> idle, or the time is over --> stop_server --> finish
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>

#include "app/model/model_setup.hpp"
#include "app/options/options.hpp"
#include "app/process/shutdown.hpp"
#include "app/service/service_manager.hpp"
#include "engine/base/narration.hpp"
#include "engine/schedule/admission.hpp"
#include "engine/worker_state.hpp"

namespace orcd::app {

class ending {
 public:
  /// What it has done by the worker.
  struct hooks {
    std::function<void()> cancel_start;            ///< the process leaves the io loop; nothing follows
    std::function<bool()> handed_over;             ///< to another engine, before cancel_start
    std::function<void(bool device_lost)> failed;  ///< the process cannot go on
    std::function<void()> start_failed;            ///< it could not begin
    std::function<void()> leave_lists;             ///< a drain begins: nobody is to send new requests here
    std::function<bool()> lingers;                 ///< somebody may not know yet that it drains
    /// Ends the streams and connections; a `stopped` event follows.
    std::function<void(std::chrono::milliseconds grace)> stop_server;
    std::function<void()> finish;                                          ///< the process leaves the io loop
    std::function<void()> exit_now;                                        ///< does not return
    std::function<void(std::chrono::milliseconds, exit_code)> arm;         ///< process_guard's
    std::function<void(std::chrono::milliseconds, exit_code)> allow_stop;  ///< likewise
    /// For signals: a handler that ran out of memory may have been the one that waits for them.
    std::function<void()> listen_again;
  };

  ending(boost::asio::io_context& io, const options& opts, engine::worker_state& state,
         service_manager& service, engine::narrator& narrator, hooks does);

  /// There are jobs from now on, of which a drain waits for the end.
  void watch_jobs(engine::admission& jobs) noexcept { jobs_ = &jobs; }
  void handle(shutdown_event event, const char* reason);
  /// Later, on the io thread; any thread.
  void post(shutdown_event event, const char* reason);
  /// The one line that says why, and the end.
  void fail_start(const start_failure& failure);
  /// The process cannot go on. Any thread; the GPU thread after every job got its error event.
  void fail(const engine::error& why, exit_code code);
  /// Begins the end of a worker that has run out of memory in a handler; again after each failure, which may
  /// have cut short what the last call began.
  void wind_up();

  [[nodiscard]] bool has_begun() const noexcept { return fsm_.ending(); }
  [[nodiscard]] exit_code code() const noexcept { return fsm_.code(); }

 private:
  void perform(shutdown_action action, const char* reason);
  void begin_drain(const char* reason);
  void linger();
  void stop_server();

  boost::asio::io_context& io_;
  const options& opts_;
  const std::chrono::seconds drain_limit_;
  engine::worker_state& state_;
  service_manager& service_;
  engine::narrator& narrator_;
  const hooks does_;
  shutdown_fsm fsm_;
  boost::asio::steady_timer timer_;
  engine::admission* jobs_ = nullptr;
  bool drain_begun_ = false;
  bool exhausted_ = false;
};

}  // namespace orcd::app
