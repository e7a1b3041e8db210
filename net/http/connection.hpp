// One accepted connection, and the set of all of them. io thread only. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/http/asio.hpp"
#include "net/http/eviction.hpp"
#include "net/http/place_shares.hpp"
#include "net/http/request_note.hpp"
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
  /// The system_fingerprint of the engine that began with the request that is recovered; empty: not known.
  std::string fingerprint{};
  bool alone = false;              ///< the request may end engines: its jobs run by themselves
  std::function<void()> closed{};  ///< called when this end is shut down and closed
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
  std::string fingerprint;               ///< see journalled; of the request that is recovered
  bool alone = false;                    ///< see journalled; of the request that is served now
  bool entered = false;                  ///< the jobs of that request have their places
  /// Of the request that is served now; null: its spans are not kept.
  request_trace* trace = nullptr;
  request_note note{};  ///< of that request, for log and metrics
  connection_phase phase = connection_phase::head;
  engine::steady_time since{};   ///< when the phase began; of a body: when more of it is due
  engine::steady_time begun{};   ///< when the phase began, of a body, too
  std::uint64_t body_bytes = 0;  ///< that have come of this request's
  bool served = false;           ///< it has served a request, and another may follow
  connection_tier tier;          ///< none once it was closed to make room for another
  place_claim claim;             ///< whose place it has, if it has one
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
  explicit connection_set(const connection_limits& limits)
      : limits_(limits), shares_(limits.connections_max) {
    reserved_.reserve(limits.connections_reserved);
  }

  void add(connection& c);
  void remove(connection& c);
  /// To be called when connections_max has become another.
  void note_limit() { shares_.set_places(limits_.connections_max); }
  /// Those whose request another engine began and whose jobs have no places yet.
  [[nodiscard]] std::size_t recovering() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

  /// The tier for a socket from this address; closes others if that makes room for it.
  [[nodiscard]] connection_tier tier_for(const asio::ip::address& from);
  /// Makes it a regular connection and one of this tenant's or, where that is empty, of its address's; false
  /// where there is no room. A connection that has sent a whole head, which it has, goes before all that have
  /// not, however short these are here, and before the bodies of shares that are larger than its own.
  bool promote(connection& c, std::string_view tenant);
  /// Why promote() was false.
  [[nodiscard]] engine::error refusal_of(const connection& c, std::string_view tenant) const;
  /// Closes connections to make room for one more descriptor; false when there are none to close.
  bool evict() { return evict(eviction_asker(), nullptr); }
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
  [[nodiscard]] bool exceeds_address_limit(const connection& c) const;
  [[nodiscard]] bool has_regular(const place_claim& wanted, const connection* whose);
  bool evict(const eviction_asker& asker, const connection* spared);
  [[nodiscard]] bool is_spent(const eviction_asker& asker) const;
  bool evict_reserved();
  std::size_t close_some(const std::vector<connection*>& them, const eviction_asker& asker,
                         std::size_t wanted);
  void set_tier(connection& c, connection_tier next);

  const connection_limits& limits_;
  std::unordered_set<connection*> all_;
  std::unordered_map<std::string, std::size_t> by_network_;
  place_shares shares_;                ///< of the regular ones
  std::vector<connection*> reserved_;  ///< those of that tier: each accept may look at them
  /// The last search after which there was nothing more to close, and how far it went.
  struct {
    engine::steady_time at{};
    std::size_t whole = 0, part = 0;  ///< places of its asker's shares
    bool has_head = false, beyond_few = false;
  } spent_;
};

}  // namespace orcd::net
