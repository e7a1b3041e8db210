// An engine's connections where a holder accepts them, so that they outlive the engine that serves them.
// While no holder is there the engine accepts by itself, and gives everything to the next one. io thread,
// unless a function says otherwise.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/narration.hpp"
#include "engine/worker_state.hpp"
#include "net/failover/engine_cycle.hpp"
#include "net/failover/holder_link.hpp"
#include "net/server/takeover.hpp"

namespace orcd::app {

/// Of an engine that has the lock, and is to have its connections from a holder.
struct holder_facts {
  bool connected = false;
  bool is_there = false;      ///< its socket is
  bool has_listener = false;  ///< the engine has had the listening socket from one
  std::chrono::nanoseconds lock_held_for{0};
};
/// Why the connections cannot be had yet; nullopt: they can be asked for.
[[nodiscard]] std::optional<std::string> why_not_yet(const holder_facts& facts);

/// How many of `before` are not among `now`.
[[nodiscard]] std::uint64_t count_missing(const std::vector<net::held_place>& before,
                                          const std::vector<net::held_place>& now);

class holder_role {
 public:
  using report_handler = std::function<void(const std::optional<net::report_frame>&)>;

  /// Of the server, and of whoever has an engine do things. On the io thread.
  struct hooks {
    std::function<void(net::held_socket)> adopt;
    std::function<void(net::held_socket)> adopt_late;
    std::function<engine::result<net::takeover_counts>(int journal, net::held_config, net::held_connections)>
        serve;
    std::function<void()> rested;     ///< the engines before have ended for good
    std::function<void()> hung_up;    ///< an operator has the holder read keys and log level again
    std::function<void()> hand_over;  ///< an operator has the holder let another engine serve
  };

  /// `path`: the holder's socket. What is published goes to `status` and `state`.
  holder_role(boost::asio::io_context& io, std::string path, net::failover_status& status,
              engine::worker_state& state, engine::narrator& narrator, hooks asked);

  /// Whether somebody has made a socket at the path.
  [[nodiscard]] static bool is_there(const std::string& path) noexcept;

  /// Connects. Errors: those of holder_link::open().
  [[nodiscard]] engine::result<void> open(const net::hello_frame& self);
  [[nodiscard]] bool is_connected() const noexcept { return link_->is_connected(); }
  /// The holder has all connections, so that another engine can go on with them. Any thread.
  [[nodiscard]] bool has_all() const noexcept { return has_all_; }

  // An engine that waits.
  void stand_by(const net::answer_identity& answers) { link_->stand_by(answers); }
  void ask(const net::answer_identity& answers, report_handler told) { link_->ask(answers, std::move(told)); }

  // One that has the lock, so that whoever had the connections is gone; in this order.
  [[nodiscard]] std::optional<std::string> why_not(std::chrono::nanoseconds lock_held_for) const;
  /// With descriptors for `room` connections.
  void take_over(std::uint32_t room, net::holder_link::held_handler done);
  /// True where nobody can read the journal and the holder was told to make another one: take_over() is to be
  /// called again, and `held` is closed. Once: what is wrong after that is told as an error of serve().
  [[nodiscard]] bool replaces_journal(net::held_connections& held);
  /// Goes on with what was taken over, and with all that comes later.
  [[nodiscard]] engine::result<void> serve(net::held_connections held, net::held_config config);

  void reloaded() { link_->reloaded(); }
  void ping(std::uint64_t progress) { link_->ping(progress); }
  /// What comes from now on stays with the holder.
  void stop_taking() noexcept { takes_ = has_all_ = false; }
  /// What connects from now on is the next engine's, which may begin.
  void leave();
  /// See holder_link::yield().
  void yield(bool rests) { link_->yield(rests); }

 private:
  [[nodiscard]] std::uint64_t take_lost_with_journal(const net::held_connections& held);
  void on_lost();
  void on_connected();
  void accept_without_holder();
  void accept_itself();

  boost::asio::io_context& io_;
  const std::string path_;
  net::failover_status& status_;
  engine::worker_state& state_;
  engine::narrator& narrator_;
  const hooks asked_;
  std::shared_ptr<net::holder_link> link_;  ///< sessions may outlive it
  /// Accepts itself while the holder is away.
  std::optional<boost::asio::ip::tcp::acceptor> substitute_;
  boost::asio::steady_timer pause_;  ///< after an accept that failed
  bool takes_ = false;               ///< it is the active one, and not ending
  std::atomic<bool> has_all_{false};
  /// The holder's connections when nobody could read the journal, while it is asked for another one.
  std::optional<std::vector<net::held_place>> without_journal_;
};

}  // namespace orcd::app
