#include "net/journal/socket_counters.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;

namespace {

/// The kernel's tcp_info as far as it is needed: the C library's ends before the counters.
struct longer_info {
  tcp_info known;
  std::uint64_t pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
};
static_assert(offsetof(longer_info, bytes_acked) == 120, "the kernel's layout");

bool has_fin(int state) noexcept {
  return state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING || state == TCP_TIME_WAIT;
}

bool has_own_fin(int state) noexcept {
  return state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING || state == TCP_LAST_ACK ||
         state == TCP_TIME_WAIT;
}

error failed(const char* what) {
  return {errc::internal,
          std::string("a socket's counters cannot be read: ") + what + ": " + std::strerror(errno)};
}

result<longer_info> read_info(int socket) {
  longer_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return failed("TCP_INFO");
  if (bytes < sizeof info) return error{errc::internal, "the kernel's tcp_info is too short"};
  if (info.known.tcpi_state == TCP_CLOSE) return error{errc::internal, "the connection is closed"};
  return info;
}

/// One reading. False where something moved between its beginning and its end, as when the peer acknowledges.
result<bool> read_once(int socket, raw_counters& raw) {
  const auto before = read_info(socket);
  if (!before) return before.error();
  int unsent = 0, unread = 0;
  if (::ioctl(socket, SIOCOUTQ, &unsent) != 0) return failed("SIOCOUTQ");
  if (::ioctl(socket, SIOCINQ, &unread) != 0) return failed("SIOCINQ");
  const auto after = read_info(socket);
  if (!after) return after.error();
  raw.bytes_acked = after->bytes_acked;
  raw.bytes_received = after->bytes_received;
  raw.unsent = static_cast<std::uint64_t>(unsent);
  raw.unread = static_cast<std::uint64_t>(unread);
  raw.fin_received = has_fin(after->known.tcpi_state);
  raw.fin_sent = has_own_fin(after->known.tcpi_state);
  return before->bytes_acked == after->bytes_acked && before->bytes_received == after->bytes_received &&
         before->known.tcpi_state == after->known.tcpi_state;
}

}  // namespace

result<socket_counters> counters_of(const raw_counters& raw) {
  const std::uint64_t fin = raw.fin_received ? 1 : 0;
  if (raw.bytes_received < raw.unread + fin) {
    return error{errc::internal, "a socket has more unread bytes than it received"};
  }
  const std::uint64_t own_fin = raw.fin_sent ? 1 : 0;
  if (raw.bytes_acked + raw.unsent < own_fin)
    return error{errc::internal, "a socket's end was sent before it"};
  return socket_counters{raw.bytes_received - raw.unread - fin, raw.bytes_acked + raw.unsent - own_fin};
}

result<socket_counters> read_counters(int socket) {
  constexpr int attempts = 1'000;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    raw_counters raw;
    const auto still = read_once(socket, raw);
    if (!still) return still.error();
    if (*still) return counters_of(raw);
  }
  return error{errc::internal, "a socket's counters do not stand still"};
}

}  // namespace orcd::net
