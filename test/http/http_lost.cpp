// When nobody can read an answer any more.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <optional>

#include "net/jobs/run_in_background.hpp"

namespace orcd::net {
namespace {

/// A connection of the server's and the client's end of it.
struct fixture {
  fixture() {
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    client.connect(acceptor.local_endpoint());
    served.emplace(acceptor.accept(), connection_limits(), connection_tier::regular);
  }
  /// Whether the connection is lost, once what the client did has arrived.
  bool lost_after(const std::function<void()>& what) {
    what();
    // A reset and an end of the input both make it readable.
    error_code ignored;
    served->stream.socket().wait(tcp::socket::wait_read, ignored);
    return is_lost(*served);
  }
  asio::io_context io;
  tcp::socket client{io};
  std::optional<connection> served;
};

BOOST_FIXTURE_TEST_SUITE(lost_connections, fixture)

BOOST_AUTO_TEST_CASE(one_that_is_silent_is_not) {
  BOOST_TEST(!is_lost(*served));
}

BOOST_AUTO_TEST_CASE(one_that_sends_more_is_not) {
  BOOST_TEST(!lost_after([&] { asio::write(client, asio::buffer("GET", 3)); }));
}

BOOST_AUTO_TEST_CASE(one_that_has_finished_sending_may_still_read) {
  BOOST_TEST(!lost_after([&] { client.shutdown(tcp::socket::shutdown_send); }));
}

BOOST_AUTO_TEST_CASE(one_that_was_reset_is) {
  BOOST_TEST(lost_after([&] {
    client.set_option(asio::socket_base::linger(true, 0));
    client.close();
  }));
}

BOOST_AUTO_TEST_CASE(one_that_this_side_has_closed_is) {
  served->stream.close();
  BOOST_TEST(is_lost(*served));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
