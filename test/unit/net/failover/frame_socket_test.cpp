// One end of a socket of frames where the system is short of something; and the names of devices' sockets.
#include "net/failover/frame_socket.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "net/failover/weights_frames.hpp"

using namespace orcd;

BOOST_AUTO_TEST_SUITE(frame_sockets)

/// As where the kernel has no room to wait for one more descriptor: nothing is thrown in the io thread.
BOOST_AUTO_TEST_CASE(a_socket_that_cannot_be_waited_for_has_ended) {
  boost::asio::io_context io;
  constexpr int no_descriptor = 1'000'000;
  const auto socket = std::make_shared<net::frame_socket>(io, net::file_descriptor(no_descriptor), 1);
  int ends = 0;
  socket->start({[](net::frame_socket::received) {}, [&](const engine::error&) { ++ends; }});
  BOOST_TEST(!socket->is_open());
  BOOST_TEST(socket->descriptor() == -1);
  socket->send({1, net::ask_frame{}});
  socket->read_now();
  BOOST_TEST(ends == 0);
  io.run();
  BOOST_TEST(ends == 1);
  socket->close();
}

BOOST_AUTO_TEST_CASE(a_part_of_a_gpu_is_told_as_a_gpu) {
  const std::vector<std::string> gpu{"GPU-1", "MIG-1"};
  BOOST_TEST(net::device_names_of("GPU-1") == gpu);
  const std::vector<std::string> host{"host"};
  BOOST_TEST(net::device_names_of(net::host_device) == host);
}

BOOST_AUTO_TEST_SUITE_END()
