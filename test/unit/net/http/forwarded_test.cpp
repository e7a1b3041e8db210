// Whose request it is that came through proxies.
#include "net/http/forwarded.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

namespace orcd::net {
namespace {

namespace ip = boost::asio::ip;

std::string client(const char* peer, std::string_view header, const char* trusted) {
  const auto proxies = *trusted == '\0' ? std::vector<proxy_network>() : parse_proxies(trusted).value();
  return client_address(ip::make_address(peer), header, proxies).to_string();
}

BOOST_AUTO_TEST_SUITE(forwarded)

BOOST_AUTO_TEST_CASE(a_header_counts_as_far_as_proxies_are_trusted) {
  BOOST_TEST(client("10.0.0.1", "203.0.113.5", "") == "10.0.0.1");
  BOOST_TEST(client("10.0.0.1", "203.0.113.5", "10.0.0.0/8") == "203.0.113.5");
  BOOST_TEST(client("11.0.0.1", "203.0.113.5", "10.0.0.0/8") == "11.0.0.1");
  BOOST_TEST(client("10.0.0.1", "1.2.3.4, 203.0.113.5", "10.0.0.0/8") == "203.0.113.5",
             "a client's own word");
  BOOST_TEST(client("10.0.0.1", "203.0.113.5,10.9.9.9", "10.0.0.0/8") == "203.0.113.5");
  BOOST_TEST(client("10.0.0.1", "10.9.9.9", "10.0.0.0/8") == "10.9.9.9");
  BOOST_TEST(client("::1", " 2001:db8::7 ", "::1,10.0.0.1") == "2001:db8::7");
  BOOST_TEST(client("fd00::3", "203.0.113.5", "fd00::/8") == "203.0.113.5");
}

BOOST_AUTO_TEST_CASE(what_is_no_address_ends_the_search) {
  for (const char* header : {"", "unknown", "203.0.113.5:80", "localhost", ",", "203.0.113.5,", "a b"}) {
    BOOST_TEST(client("10.0.0.1", header, "10.0.0.0/8") == "10.0.0.1", header);
  }
  BOOST_TEST(client("10.0.0.1", "unknown, 203.0.113.5", "0.0.0.0/0") == "203.0.113.5");
  BOOST_TEST(client("10.0.0.1", std::string(10'000, ','), "0.0.0.0/0") == "10.0.0.1");
}

BOOST_AUTO_TEST_CASE(lists_of_proxies) {
  BOOST_TEST(parse_proxies("10.0.0.0/8, ::1 ,127.0.0.1").value().size() == 3U);
  for (const char* bad : {"", "a", "10.0.0.0/33", "10.0.0.1,", "10.0.0.0/", "localhost", "10.0.0"}) {
    BOOST_TEST(!parse_proxies(bad).has_value(), bad);
  }
  std::string many = "10.0.0.1";
  for (int i = 0; i < 64; ++i) many += ",10.0.0.1";
  BOOST_TEST(!parse_proxies(many).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
