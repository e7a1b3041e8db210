// Keeps what must outlive an engine: the listening socket, a duplicate of every client's socket, and the
// journal. Accepts for the engine that is active and passes each connection on to it; when that engine ends,
// the next one gets them all. Everything on the thread of one io_context; nothing here waits.
// Source: the holder of the failover plan.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "app/holder/client_port.hpp"
#include "app/holder/heart_watch.hpp"
#include "app/holder/held_table.hpp"
#include "app/holder/holder_options.hpp"
#include "app/holder/local_door.hpp"
#include "app/holder/refused_clients.hpp"
#include "app/holder/socket_place.hpp"
#include "app/holder/stored_state.hpp"
#include "engine/base/narration.hpp"
#include "net/failover/frame_socket.hpp"

namespace orcd::app {

/// Engines give a sign of life twice a second; one that has given none for so long is no engine to count on.
inline constexpr std::chrono::milliseconds engine_silence{5'000};
/// Engines and probes at the holder's socket at a time.
inline constexpr std::size_t holder_clients_max = 64;

class holder {
 public:
  /// `place` and `store`, which keeps what it has, outlive the holder. `sockets_max`: clients' connections
  /// that there are descriptors for.
  holder(boost::asio::io_context& io, const holder_options& opts, engine::narrator& narrator,
         const socket_place& place, std::uint32_t sockets_max, descriptor_store& store);
  ~holder();
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  /// Goes on with what was stored. Without a listener there it listens for clients, or waits for an engine
  /// that has the port from a holder before. Errors: worker_start_failed.
  [[nodiscard]] engine::result<void> open(stored_state stored);
  /// Adds what else the service manager is to keep, each time that it is told. Set before open().
  void also_store(std::function<void(std::vector<descriptor_store::item>&)> added) {
    also_stored_ = std::move(added);
  }
  /// Has the service manager keep what there is now.
  void store_all();
  /// Whether it has journal and port; `told` is called once, when it has.
  void on_complete(std::function<void()> told);
  /// The pidfd of an engine that is connected; -1 where it is not.
  [[nodiscard]] int process_of(std::uint32_t engine) const noexcept;
  /// An operator's signal, for all engines or for the one that serves.
  void pass_on(net::signal_frame::kind what);
  /// The engine that serves.
  [[nodiscard]] std::optional<std::uint32_t> active_engine() const noexcept;
  [[nodiscard]] bool is_complete() const noexcept { return complete_; }

 private:
  using time = std::chrono::steady_clock::time_point;
  /// What an engine has offered so far.
  struct offer {
    net::file_descriptor journal;
    net::file_descriptor listener;
    std::vector<std::pair<net::held_place, net::file_descriptor>> sockets{};
    std::uint64_t next_serial = 1;
  };
  struct client {
    std::shared_ptr<net::frame_socket> socket;
    std::optional<std::uint32_t> engine{};  ///< once it has said who it is
    std::uint32_t system_port = 0;
    bool has_served = false;
    bool settled = false;  ///< the active one goes on with all that it took over
    net::file_descriptor process{};
    std::optional<net::answer_identity> standby{};  ///< of one that stands by: how it answers
    time beat_at{};                                 ///< its last sign of life
    std::optional<heart_watch> heart{};             ///< of the active one
    std::uint64_t kills_failed = 0;                 ///< where it hung and the kernel did not let it be killed
    std::optional<offer> offered{};
  };

  void add_client(net::file_descriptor socket);
  void drop(client& one, const char* why);
  void remove(client& one);
  bool handle(client& from, net::frame_socket::received got);
  bool on_hello(client& from, const net::hello_frame& what, net::file_descriptor process);
  bool on_take_over(client& from, std::uint32_t room);
  bool on_sockets(client& from, const net::sockets_frame& what, std::vector<net::file_descriptor> sockets);
  bool on_offer(client& from, std::vector<net::file_descriptor> shared);
  bool adopt(client& from);
  void on_journal_damaged(const client& from);
  [[nodiscard]] std::uint32_t close_journalled();
  void on_reloaded(const client& from);
  void welcome(client& one);
  void activate(client& one);
  void deactivate(bool rests);
  void look_for_rest();
  void kill_hanging(client& one, const std::string& what);
  void kill_silent_standbys(std::chrono::steady_clock::time_point now);
  void hand_over_all(client& to, std::uint32_t room);
  void hand_over_waiting();
  void let_taker_wait(client& taker, std::uint32_t room);
  void go_on_with_taker();
  void hand_over_new(net::file_descriptor socket);
  [[nodiscard]] bool wants_connection() const;
  [[nodiscard]] bool has_room();
  void set_complete();
  [[nodiscard]] engine::result<void> complete_with(stored_state stored);
  void put_stored(stored_state& stored);
  void store_often();
  void try_port();
  void look_at_hearts();
  [[nodiscard]] net::report_frame report(const client& to, const net::answer_identity* asked) const;
  [[nodiscard]] net::engines_frame list() const;
  [[nodiscard]] net::listed_engine describe(const client& one) const;

  boost::asio::io_context& io_;
  const holder_options& opts_;
  engine::narrator& narrator_;
  local_door door_;
  boost::asio::steady_timer port_timer_;
  boost::asio::steady_timer heart_timer_;
  boost::asio::steady_timer store_timer_;
  descriptor_store& store_;
  std::function<void(std::vector<descriptor_store::item>&)> also_stored_;
  boost::asio::steady_timer rest_timer_;   ///< between looks at engines that were active
  boost::asio::steady_timer taker_timer_;  ///< until it is told that a takeover waits
  client_port port_;
  held_table table_;
  refused_clients refused_;
  std::chrono::steady_clock::time_point looked_for_room_{};
  net::file_descriptor journal_;
  std::uint32_t journals_replaced_ = 0;     ///< since nobody could read them
  std::uint32_t closed_with_journals_ = 0;  ///< connections
  std::list<client> clients_;
  client* active_ = nullptr;
  /// Of engines that were active, and for which the device may still do something: pidfds.
  std::vector<net::file_descriptor> leaving_;
  bool has_had_active_ = false;
  /// An engine that has asked for everything while the one before had not left.
  struct waiting_taker {
    client* engine;
    std::uint32_t room;
  };
  std::optional<waiting_taker> taker_;
  std::chrono::steady_clock::time_point looked_at_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point awake_since_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point inactive_since_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point rest_not_before_{};
  bool complete_ = false;
  std::function<void()> told_complete_;
};

}  // namespace orcd::app
