#include "net/failover/held_socket.hpp"

#include <sys/socket.h>

namespace orcd::net {

boost::asio::ip::tcp protocol_of(int socket) noexcept {
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  const bool known = ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &bytes) == 0;
  return known && own.ss_family == AF_INET6 ? boost::asio::ip::tcp::v6() : boost::asio::ip::tcp::v4();
}

}  // namespace orcd::net
