// Whether a socket that a service manager passed is the configured one.
#include "app/service/passed_listener.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

namespace {

using orcd::app::disagreement;
using orcd::app::passed_listener;

const passed_listener at_8080{3, "127.0.0.1", 8080};

}  // namespace

BOOST_AUTO_TEST_SUITE(socket_activation)

BOOST_AUTO_TEST_CASE(what_is_not_configured_is_whatever_was_passed) {
  BOOST_TEST(!disagreement(at_8080, std::nullopt, std::nullopt));
  BOOST_TEST(!disagreement(at_8080, "127.0.0.1", std::nullopt));
  BOOST_TEST(!disagreement(at_8080, std::nullopt, 8080));
  BOOST_TEST(!disagreement(at_8080, "127.0.0.1", 0));  // any port
}

BOOST_AUTO_TEST_CASE(another_port_is_named_with_both) {
  const auto why = disagreement(at_8080, std::nullopt, 9000);
  BOOST_REQUIRE(why);
  BOOST_TEST(why->find("--port is 9000") != std::string::npos);
  BOOST_TEST(why->find("127.0.0.1 port 8080") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(another_address_is_named_because_it_decides_who_may_ask) {
  const auto why = disagreement({3, "0.0.0.0", 8080}, "127.0.0.1", 8080);
  BOOST_REQUIRE(why);
  BOOST_TEST(why->find("--host is 127.0.0.1") != std::string::npos);
  BOOST_TEST(disagreement({3, "::1", 8080}, "127.0.0.1", 8080).has_value());
}

BOOST_AUTO_TEST_CASE(any_address_is_any_address_in_both_families) {
  BOOST_TEST(!disagreement({3, "::", 8080}, "0.0.0.0", 8080));
  BOOST_TEST(!disagreement({3, "0.0.0.0", 8080}, "::", 8080));
}

BOOST_AUTO_TEST_SUITE_END()
