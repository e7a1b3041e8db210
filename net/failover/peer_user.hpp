// Whose program is at the other end of a TCP connection within this machine. Source: proc(5), /proc/net/tcp.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <iosfwd>
#include <optional>

namespace orcd::net {

/// The two ends of a connection as the worker has it.
struct tcp_ends {
  boost::asio::ip::tcp::endpoint own;
  boost::asio::ip::tcp::endpoint peer;
};

/// The user of the peer's socket in a table of the kernel's form; nullopt: it is not there, or no program has
/// it any more, since the kernel then says that it is root's.
[[nodiscard]] std::optional<std::uint32_t> find_user(std::istream& table, const tcp_ends& ends);

/// Reads the kernel's tables, which takes as long as they are: milliseconds where there are thousands of
/// connections. nullopt: the peer is on another machine, or as in find_user(). Any thread.
[[nodiscard]] std::optional<std::uint32_t> user_of_peer(const tcp_ends& ends);

}  // namespace orcd::net
