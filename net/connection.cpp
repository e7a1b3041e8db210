#include "net/connection.hpp"

#include <netinet/tcp.h>

#include <utility>

namespace orcd::net {
namespace {

// Below 64 KiB: Beast 1.81 throws from within its read operation when a trailer field is longer than that,
// and a trailer is at most what the buffer holds.
constexpr std::size_t input_bytes_max = 48 * 1024;
constexpr int send_buffer_bytes = 128 * 1024;  // what a client that does not read can make the kernel hold

constexpr std::chrono::seconds evictable_after{2};

}  // namespace

connection::connection(tcp::socket socket, const connection_limits& limits)
    : stream(std::move(socket)), input(input_bytes_max) {
  // Options are a help, not a condition: where one is refused the timers still hold.
  error_code ignored;
  stream.socket().set_option(tcp::no_delay(true), ignored);
  stream.socket().set_option(asio::socket_base::send_buffer_size(send_buffer_bytes), ignored);
  // A host that vanished without closing is noticed when data stays unacknowledged for this long.
  using user_timeout = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
  const auto ms = std::chrono::milliseconds(limits.write_timeout).count();
  stream.socket().set_option(user_timeout(static_cast<int>(ms)), ignored);
}

bool connection_set::evict_oldest_idle() {
  connection* oldest = nullptr;
  for (connection* c : all_) {
    if (c->idle && (oldest == nullptr || c->idle_since < oldest->idle_since)) oldest = c;
  }
  if (oldest == nullptr || std::chrono::steady_clock::now() - oldest->idle_since < evictable_after)
    return false;
  oldest->idle = false;
  oldest->stream.close();
  return true;
}

void connection_set::close_idle() {
  for (connection* c : all_) {
    if (c->idle) c->stream.close();
  }
}

void connection_set::close_all() {
  for (connection* c : all_) c->stream.close();
}

}  // namespace orcd::net
