// Whose program is at the other end of a connection, by the kernel's table.
#include "net/failover/peer_user.hpp"

#include <boost/test/unit_test.hpp>
#include <sstream>
#include <string>

namespace orcd::net {
namespace {

namespace ip = boost::asio::ip;

constexpr const char* heading =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

ip::tcp::endpoint at(const char* address, std::uint16_t port) {
  return {ip::make_address(address), port};
}

std::string row(const std::string& local, const std::string& remote, const std::string& user,
                const std::string& inode) {
  return "   7: " + local + " " + remote + " 01 00000000:00000000 00:00000000 00000000  " + user +
         "        0 " + inode + " 1 0000000000000000 20 0 0 10 -1\n";
}

std::optional<std::uint32_t> found(const std::string& rows, const tcp_ends& ends) {
  std::istringstream table(heading + rows);
  return find_user(table, ends);
}

BOOST_AUTO_TEST_SUITE(peer_user)

// Addresses as a little-endian machine has them, on which all builds of the worker run.
const std::string own = "0100007F:2382", peer = "0100007F:D431";
const tcp_ends ends{at("127.0.0.1", 9090), at("127.0.0.1", 54321)};

BOOST_AUTO_TEST_CASE(the_peers_row_says_it) {
  BOOST_TEST(found(row(own, peer, "0", "11") + row(peer, own, "1000", "12"), ends).value() == 1000U);
  BOOST_TEST(found(row(peer, own, "0", "12"), ends).value() == 0U);
}

BOOST_AUTO_TEST_CASE(a_socket_that_no_program_has_any_more_is_nobodys) {
  BOOST_TEST(!found(row(peer, own, "0", "0"), ends).has_value());
}

BOOST_AUTO_TEST_CASE(other_connections_do_not_count) {
  const std::string elsewhere = "0200007F:2382";
  BOOST_TEST(!found("", ends).has_value());
  BOOST_TEST(!found(row(own, peer, "0", "11"), ends).has_value());
  BOOST_TEST(!found(row(peer, elsewhere, "0", "11"), ends).has_value());
  BOOST_TEST(!found("   7: " + peer + " " + own + " 01 000\n", ends).has_value());
  BOOST_TEST(!found("   7: " + peer + " " + own + "\n", ends).has_value());
}

BOOST_AUTO_TEST_CASE(ipv6_has_four_words) {
  const tcp_ends six{at("::1", 9090), at("::1", 54321)};
  const std::string local = "00000000000000000000000001000000";
  BOOST_TEST(found(row(local + ":D431", local + ":2382", "33", "5"), six).value() == 33U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
