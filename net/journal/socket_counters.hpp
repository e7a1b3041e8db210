// What the kernel took of a TCP connection's bytes in either direction, to the byte. A socket that has a
// duplicate in another process tells it after the process that used it is dead. Any thread. Source: tcp(7),
// tcp_info's tcpi_bytes_acked (RFC 4898 tcpEStatsAppHCThruOctetsAcked) and tcpi_bytes_received
// (tcpEStatsAppHCThruOctetsReceived).
#pragma once

#include <cstdint>

#include "engine/base/error.hpp"

namespace orcd::net {

struct socket_counters {
  std::uint64_t received = 0;  ///< bytes that were read from the socket
  std::uint64_t sent = 0;      ///< bytes that the socket took for sending
};

/// What tcp_info and the queues' lengths say, as the kernel gives it.
struct raw_counters {
  std::uint64_t bytes_acked = 0;     ///< of what was sent; the SYN is not among them
  std::uint64_t bytes_received = 0;  ///< in order, with one more for the peer's FIN
  std::uint64_t unsent = 0;          ///< SIOCOUTQ: in the send queue, not acknowledged
  std::uint64_t unread = 0;          ///< SIOCINQ
  bool fin_received = false;
  bool fin_sent = false;  ///< the sending side was shut down: it counts as one byte more
};

/// Errors: internal, where the numbers contradict one another.
[[nodiscard]] engine::result<socket_counters> counters_of(const raw_counters& raw);

/// Reads them off a connected TCP socket. Errors: internal with the system's reason.
[[nodiscard]] engine::result<socket_counters> read_counters(int socket);

}  // namespace orcd::net
