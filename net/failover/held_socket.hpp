// A client's connection on its way between the holder and an engine.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

#include "net/failover/file_descriptor.hpp"

namespace orcd::net {

/// Where the holder of a folder is reached.
[[nodiscard]] inline std::string holder_socket_path(const std::string& dir) {
  return dir + "/connections.sock";
}

/// Of a TCP socket that came as a descriptor: IPv6, or else IPv4.
[[nodiscard]] boost::asio::ip::tcp protocol_of(int socket) noexcept;

/// Whoever has it shuts it down before closing it, since the holder's duplicate would keep the client from
/// seeing the end.
struct held_socket {
  std::uint32_t slot = 0;    ///< its place in the holder's table, below held_sockets_max
  std::uint64_t serial = 0;  ///< of this connection only, ever; never 0
  file_descriptor socket{};
};

}  // namespace orcd::net
