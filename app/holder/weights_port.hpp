// The socket of one device, at which engines ask for the right to write or to read its weights, and its
// table. A client that breaks a rule, does not read, or whose process has ended is left, and what it had is
// free. On the thread of one io_context; nothing here waits.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "app/holder/device_list.hpp"
#include "app/holder/local_door.hpp"
#include "app/holder/socket_file.hpp"
#include "app/holder/stored_weights.hpp"
#include "app/holder/weights_table.hpp"
#include "engine/base/narration.hpp"
#include "net/failover/frame_socket.hpp"

namespace orcd::app {

/// At the socket of one device at a time.
inline constexpr std::size_t weights_clients_max = 64;
/// Descriptors that one device may take: clients with their processes and answers that wait, pieces, and the
/// socket.
inline constexpr std::size_t weights_descriptors_max = 4 * weights_clients_max + net::pieces_max + 4;

class weights_port {
 public:
  weights_port(boost::asio::io_context& io, const held_device& device, engine::narrator& narrator);
  ~weights_port();
  weights_port(const weights_port&) = delete;
  weights_port& operator=(const weights_port&) = delete;

  /// Listens in the folder, which the caller has for itself, at the device's name, and makes its index a link
  /// to that. Errors: those of socket_file.
  [[nodiscard]] engine::result<void> open(const std::string& dir, const net::peer_rule& rule);

  /// After open(), before the io_context runs: what a holder before this one had.
  void restore(restored_weights::set stored);
  /// The same where nothing came back whole: numbers of grants to write go on behind this one.
  void begin_behind(std::uint64_t epoch) noexcept { table_.begin_behind(epoch); }
  /// Called when weights are committed or let go. Set before the io_context runs.
  void on_change(std::function<void()> told) { changed_ = std::move(told); }
  /// Adds what a service manager is to keep, if that is no more than `room`; nothing where nothing is
  /// committed. Valid until what is committed changes.
  void add_stored(std::vector<descriptor_store::item>& to, std::size_t room);

 private:
  struct client {
    explicit client(boost::asio::io_context& io) : process(io) {}
    weights_table::client number = 0;
    std::shared_ptr<net::frame_socket> socket{};
    boost::asio::posix::stream_descriptor process;  ///< a pidfd, once it has claimed
    std::uint32_t engine = net::no_engine;          ///< while it has a claim
    std::uint32_t request = 0;                      ///< of its claim
    bool writes = false;
  };

  void add_client(net::file_descriptor socket);
  [[nodiscard]] client* find(weights_table::client number);
  void handle(weights_table::client number, net::frame_socket::received got);
  /// What is said back, or the rule that is broken.
  [[nodiscard]] engine::result<void> answer(client& from, net::frame_socket::received got);
  [[nodiscard]] engine::result<void> on_claim(client& from, const net::claim_frame& what,
                                              net::file_descriptor process);
  [[nodiscard]] engine::result<void> on_put(client& from, std::uint32_t request, const net::put_frame& what,
                                            net::file_descriptor memory);
  [[nodiscard]] engine::result<void> on_commit(client& from, std::uint32_t request,
                                               const net::commit_frame& what);
  [[nodiscard]] engine::result<void> on_get(client& from, std::uint32_t request, const net::get_frame& what);
  void watch_process(client& one);
  void tell(const weights_table::answers& all);
  void tell(client& to, const weights_table::answer& one);
  void await_deadline();
  void drop(weights_table::client number, const std::string& why);

  boost::asio::io_context& io_;
  const held_device device_;
  engine::narrator& narrator_;
  std::optional<socket_file> file_;
  std::string link_;  ///< its path, once it is made
  std::optional<local_door> door_;
  boost::asio::steady_timer deadline_;
  weights_table table_;
  std::function<void()> changed_;
  std::uint64_t told_epoch_ = 0;    ///< what was committed when changed_ was last told; 0: nothing
  net::file_descriptor record_;     ///< for the service manager, of what is committed
  std::uint64_t record_epoch_ = 0;  ///< of record_
  std::list<client> clients_;
  weights_table::client next_number_ = 1;
};

}  // namespace orcd::app
