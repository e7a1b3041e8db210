// One accepted connection, and the set of all of them. io thread only. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "engine/schedule/job.hpp"
#include "net/http/asio.hpp"
#include "net/http/eviction.hpp"
#include "net/journal/recovery.hpp"
#include "net/limits.hpp"

namespace orcd::net {

struct request_trace;

/// What a connection may be used for.
enum class connection_tier {
  regular,   ///< one of connections_max: serves everything
  reserved,  ///< one of connections_reserved beyond them: serves probes alone
  none       ///< neither: refused, or closed to make room for another
};

/// What the journal has of a connection; both are empty where there is no journal.
struct journalled {
  std::unique_ptr<journal_record> record;
  std::optional<recovered_connection> recovered;  ///< of one that a dead engine left
  std::optional<engine::error> refusal;  ///< why the request that was being answered is not gone on with
  std::uint64_t maker = 0;               ///< this engine's, for requests that it begins
  bool alone = false;                    ///< the request may end engines: its jobs run by themselves
  std::function<void()> closed{};        ///< called when this end is shut down and closed
};

struct connection {
  connection(tcp::socket socket, const connection_limits& limits, connection_tier given,
             journalled kept = {});

  /// Sets the phase and the time at which it began; evict() chooses by both.
  void enter(connection_phase next);
  /// Ends it at once. A close alone sends no FIN while another process has the socket, too.
  void close();
  /// Notes that this much of the request's body has come.
  void note_body_bytes(std::size_t bytes);

  beast::tcp_stream stream;
  beast::flat_buffer input;                ///< received and not yet parsed; bounded
  std::unique_ptr<journal_record> record;  ///< null: nothing is kept of it
  /// What a dead engine left of the request that is served now; empty from its end on.
  std::optional<recovered_connection> recovered;
  std::size_t replayed = 0;              ///< of recovered->input: the bytes that have been read again
  std::optional<engine::error> refusal;  ///< why that request is not gone on with
  std::uint64_t maker = 0;               ///< see journalled
  bool alone = false;                    ///< see journalled; of the request that is served now
  /// Of the request that is served now; null: its spans are not kept.
  request_trace* trace = nullptr;
  connection_phase phase = connection_phase::head;
  engine::steady_time since{};   ///< when the phase began; of a body: when more of it is due
  bool served = false;           ///< it has served a request, and another may follow
  connection_tier tier;          ///< none once it was closed to make room for another
  const asio::ip::address peer;  ///< see unmapped()
  const std::string
      peer_network;  ///< what --max-connections-per-address counts: an IPv6 /64, an IPv4 address
};

/// The refusal of a connection beyond the limits.
[[nodiscard]] engine::error too_many_connections(std::size_t limit, const char* whose = "");

/// The IPv4 address that is written as an IPv6 one; any other address as it is.
[[nodiscard]] asio::ip::address unmapped(const asio::ip::address& address);
/// The /64 of an IPv6 address, because one client may use any address in it; else the IPv4 address.
[[nodiscard]] std::string network_of(const asio::ip::address& address);

/// What the kernel has received and nobody has read; 0 for a socket that is closed.
[[nodiscard]] std::size_t readable_bytes(const tcp::socket& socket);

class connection_set {
 public:
  explicit connection_set(const connection_limits& limits) : limits_(limits) {}

  void add(connection& c);
  void remove(connection& c);
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

  /// The tier for a socket from this address; closes others if that makes room for it.
  [[nodiscard]] connection_tier tier_for(const asio::ip::address& from);
  /// Whether its address has more connections than --max-connections-per-address allows.
  [[nodiscard]] bool exceeds_address_limit(const connection& c) const;
  /// Makes a reserved connection a regular one; false where there is no room. A connection that has sent a
  /// whole head goes before all that have not, however short these are here.
  bool promote(connection& c);
  /// Closes connections to make room; false when there are none to close. Those without a whole head are left
  /// alone for `head_grace`.
  bool evict(std::chrono::milliseconds head_grace = eviction_grace);
  /// The work for this connection's request is done; what is left of the answer is for the client to read.
  void mark_unread(connection& c);
  /// Closes the connections of which nothing is lost by it, see is_idle().
  void close_idle();
  void close_all();
  /// Lets go of all sockets, without a sign to the clients: other processes have them, too.
  void leave_all() noexcept;
  /// Those that are not in the journal, for lack of room.
  [[nodiscard]] std::size_t unkept() const noexcept;

 private:
  [[nodiscard]] bool has_regular(std::chrono::milliseconds head_grace = eviction_grace) {
    return regular_ < limits_.connections_max || evict(head_grace);
  }
  bool evict_reserved();
  std::size_t close_some(const std::function<bool(const connection&)>& which,
                         std::chrono::milliseconds head_grace, std::size_t wanted);
  void set_tier(connection& c, connection_tier next);

  const connection_limits& limits_;
  std::unordered_set<connection*> all_;
  std::unordered_map<std::string, std::size_t> by_network_;
  std::size_t regular_ = 0, reserved_ = 0;  ///< connections of each tier
  /// When evict() last found nothing to close, and the head_grace that it was called with.
  engine::steady_time nothing_found_at_{};
  std::chrono::milliseconds nothing_found_with_{};
};

}  // namespace orcd::net
