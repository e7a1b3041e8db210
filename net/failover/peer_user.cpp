#include "net/failover/peer_user.hpp"

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <istream>
#include <span>
#include <sstream>
#include <string>

namespace orcd::net {
namespace {

namespace ip = boost::asio::ip;

/// Addresses are printed as numbers of 32 bits in this machine's order, ports as numbers.
std::string printed(std::span<const unsigned char> address, std::uint16_t port) {
  std::string out;
  std::array<char, 16> digits{};
  for (std::size_t at = 0; at + 4 <= address.size(); at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, address.data() + at, sizeof word);
    std::snprintf(digits.data(), digits.size(), "%08X", word);
    out += digits.data();
  }
  std::snprintf(digits.data(), digits.size(), ":%04X", static_cast<unsigned>(port));
  return out + digits.data();
}

std::string printed(const ip::tcp::endpoint& at) {
  const auto address = at.address();
  if (address.is_v4()) return printed(address.to_v4().to_bytes(), at.port());
  return printed(address.to_v6().to_bytes(), at.port());
}

/// An IPv4 connection of a socket that takes both kinds is in the table of IPv6.
ip::tcp::endpoint mapped(const ip::tcp::endpoint& at) {
  if (at.address().is_v6()) return at;
  return {ip::make_address_v6(ip::v4_mapped, at.address().to_v4()), at.port()};
}

ip::tcp::endpoint unmapped(const ip::tcp::endpoint& at) {
  if (at.address().is_v4() || !at.address().to_v6().is_v4_mapped()) return at;
  return {ip::make_address_v4(ip::v4_mapped, at.address().to_v6()), at.port()};
}

}  // namespace

std::optional<std::uint32_t> find_user(std::istream& table, const tcp_ends& ends) {
  const std::string local = printed(ends.peer);
  const std::string remote = printed(ends.own);
  std::string line;
  while (std::getline(table, line)) {
    if (line.find(local) == std::string::npos) continue;
    std::istringstream words(line);
    std::string number, at, to, skipped;
    std::uint32_t user = 0;
    std::uint64_t inode = 0;
    words >> number >> at >> to;
    if (at != local || to != remote) continue;
    // State, queues, timer and retransmissions stand before the user, a count behind it.
    words >> skipped >> skipped >> skipped >> skipped >> user >> skipped >> inode;
    if (words && inode != 0) return user;
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> user_of_peer(const tcp_ends& ends) {
  const tcp_ends plain{unmapped(ends.own), unmapped(ends.peer)};
  if (plain.own.address().is_v4()) {
    std::ifstream table("/proc/self/net/tcp");
    if (const auto user = find_user(table, plain)) return user;
  }
  std::ifstream table("/proc/self/net/tcp6");
  return find_user(table, {mapped(plain.own), mapped(plain.peer)});
}

}  // namespace orcd::net
