#include "app/holder/check.hpp"

#include <boost/asio/io_context.hpp>
#include <chrono>

#include "net/failover/frame_socket.hpp"

namespace orcd::app {

std::optional<net::report_frame> ask_holder(const std::string& socket_path) {
  constexpr std::chrono::seconds limit{2};
  auto connected = net::connect_frames(socket_path);
  if (!connected) return std::nullopt;
  boost::asio::io_context io;
  std::optional<net::report_frame> answer;
  const auto socket = std::make_shared<net::frame_socket>(io, std::move(*connected), 1);
  net::frame_socket::handlers told;
  told.on_frame = [&](const net::frame_socket::received& got) {
    if (const auto* const report = std::get_if<net::report_frame>(&got.what.body)) answer = *report;
  };
  socket->start(std::move(told));
  socket->send({1, net::probe_frame{}});
  socket->read_within(limit);
  socket->close();
  return answer;
}

}  // namespace orcd::app
