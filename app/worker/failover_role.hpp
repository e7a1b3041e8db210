// The worker as one of several engines of which one serves. Every engine goes the same way: it loads, checks
// everything, and only then asks for the lock. Owns the lock, the states, and what the role takes over from
// the engine before and leaves to the next. io thread, unless a function says otherwise. Source: the shadow
// flow of the failover plan.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "app/options/options.hpp"
#include "app/worker/hand_over_role.hpp"
#include "app/worker/holder_role.hpp"
#include "app/worker/taken_pages.hpp"
#include "engine/schedule/admission.hpp"
#include "engine/worker_state.hpp"
#include "gpu/gpu_thread.hpp"
#include "net/failover/flock_lock.hpp"
#include "net/server/server.hpp"

namespace orcd::app {

class failover_role {
 public:
  /// What the role asks of the worker. On the io thread, but for `out_of_time`.
  struct hooks {
    std::function<bool()> ending;
    std::function<void(const engine::error&)> fail_start;
    std::function<void(const engine::error&)> fail;  ///< the process cannot go on
    /// The wake has taken too long: the process ends soon. On the system port's thread.
    std::function<void()> out_of_time;
    std::function<void()> stands_by;                         ///< each time, before the lock is asked for
    std::function<void(std::function<void()>)> get_weights;  ///< mapped, and then
    std::function<void()> reload;                            ///< keys and log level, which nobody has told of
    std::function<bool()> reloading;
    std::function<void(std::function<void()>)> when_reloaded;
    std::function<engine::result<void>()> reserve;  ///< the serving port, which a dead engine may hold
    std::function<engine::result<void>()> listen;   ///< there
    std::function<void()> use_holders_port;         ///< instead of both
    std::function<void()> serves_others;  ///< requests of the engine before, whatever is said of new ones
    std::function<void()> announce;       ///< whoever wants to be told that this engine serves
    std::function<void()> unlist;         ///< it does not any more
    std::function<void()> asleep;         ///< as good as not started
    std::function<void()> allow_stop;     ///< the time that a stop by a hand-over takes
    std::function<std::uint32_t()> room;  ///< for connections
    std::function<std::optional<engine::page_ledger>()> ledger;  ///< of a KV cache that engines share
    std::function<void()> reload_told;                           ///< by the holder's operator
  };

  /// The parts that serve; they outlive the role's last event.
  struct serving {
    net::server& server;
    gpu::gpu_thread& jobs;
    const engine::admission& admission;
    std::string fingerprint;  ///< system_fingerprint
  };

  failover_role(boost::asio::io_context& io, const failover_options& opts, engine::worker_state& state,
                engine::narrator& narrator, hooks asked);

  // Start-up, in this order.
  /// Errors: where there can be no lock.
  [[nodiscard]] engine::result<void> check() const { return lock_.check(); }
  /// Connects to the holder, where there is to be one. `system_port`: of this engine, for the others.
  [[nodiscard]] engine::result<void> link_holder(std::uint16_t system_port);
  /// Other engines must be equal in them to go on with this one's streams.
  void know_answers(const net::answer_identity& answers) { answers_ = answers; }
  void serve_with(serving parts) { parts_.emplace(std::move(parts)); }
  /// The files of the weights that are mapped, where another engine has loaded them: as number_of().
  void know_mapped(std::uint64_t files) { answers_.weights.mapped = files; }
  /// The same of the weights' digest, whenever it is known.
  void know_digest(std::uint64_t digest);

  /// Of any thread: the states that others may see, and the lock.
  [[nodiscard]] net::failover_status& status() noexcept { return status_; }
  [[nodiscard]] const net::flock_lock& lock() const noexcept { return lock_; }
  /// Null: the engine has a port of its own.
  [[nodiscard]] holder_role* holder() const noexcept { return holder_.get(); }
  [[nodiscard]] hand_over_role& hand_over() noexcept { return hand_over_; }
  /// It has the serving port, or the holder's connections.
  [[nodiscard]] bool is_listening() const noexcept { return listening_; }
  /// Whether this wake has taken too long, so that the process is ending.
  [[nodiscard]] bool is_out_of_time() const noexcept { return expired_; }

  void step(net::cycle_event event);
  /// The engine has had the lock for longer than it may take to serve. On the system port's thread: whatever
  /// keeps the io thread, it does not keep this one.
  void on_waking_timeout();

  /// What began here fails, and where the holder has the connections another engine goes on with them: this
  /// one ends without a word to its clients. Before the jobs are told; any thread.
  void leave_if_possible() noexcept { leaves_ = can_leave(); }
  enum class failure {
    start,    ///< it could not begin, so that no request is the reason
    process,  ///< it cannot go on
    device,   ///< which no other engine of it can, either
  };
  void on_failed(failure what);
  [[nodiscard]] bool leaves() const noexcept { return leaves_; }
  /// A failing engine ends without a word to its clients: the next one goes on with what they asked for.
  void leave_streams();
  /// The start is given up: no other engine is to count on this one.
  void give_up();
  /// The next engine need not wait for the rest.
  void release() noexcept { lock_.release(); }

 private:
  [[nodiscard]] bool can_leave() const noexcept { return holder_ && holder_->has_all(); }
  [[nodiscard]] holder_role::hooks holder_hooks();
  [[nodiscard]] hand_over_role::hooks hand_over_hooks();
  void stand_by();
  void try_to_serve();
  void try_later(const std::string& problem);
  void take_connections();
  void on_taken_over(net::held_connections held);
  void leave_connections();

  boost::asio::io_context& io_;
  const failover_options& opts_;
  engine::worker_state& state_;
  engine::narrator& narrator_;
  const hooks asked_;
  std::optional<serving> parts_;  ///< since serve_with()

  net::failover_status status_;
  net::engine_cycle cycle_{status_};
  net::flock_lock lock_;
  boost::asio::steady_timer wake_timer_;  ///< between tries for the serving port
  net::answer_identity answers_{};
  bool weights_are_back_ = false;  ///< since it stood by
  bool listening_ = false;
  bool in_order_ = false;             ///< of leaves_: no request is the reason
  std::atomic<bool> leaves_{false};   ///< this engine fails, and ends without a word to its clients
  std::atomic<bool> expired_{false};  ///< the time to come to serve is over
  std::mutex mutex_;                  ///< of what follows
  std::string wake_problem_;          ///< why the serving port could not be had, at the last try

  taken_pages pages_;
  hand_over_role hand_over_;
  std::unique_ptr<holder_role> holder_;
};

}  // namespace orcd::app
