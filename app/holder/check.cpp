#include "app/holder/check.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>

#include "net/failover/frame_socket.hpp"

namespace orcd::app {

namespace {

const char* name_of(net::listed_engine::kind state) noexcept {
  using kind = net::listed_engine::kind;
  switch (state) {
    case kind::loads: return "loads";
    case kind::stands_by: return "stands by";
    case kind::serves: return "serves";
    case kind::leaves: return "leaves";
  }
  return "";
}

std::string describe(const net::listed_engine& one) {
  return "engine " + std::to_string(one.engine) + ": " + name_of(one.state) +
         (one.is_silent ? ", silent" : "") +
         (one.process > 0 ? ", pid " + std::to_string(one.process) : ", of another PID namespace") +
         (one.system_port > 0 ? ", system port " + std::to_string(one.system_port) : ", no system port") +
         "\n";
}

}  // namespace

std::string describe(const net::engines_frame& there) {
  std::string out = "holder: " + std::string(there.complete ? "ready" : "waits for the port") + ", port " +
                    std::to_string(there.port) + ", connections " + std::to_string(there.sockets) + "\n";
  if (there.journals_replaced > 0) {
    out += "journal: damaged and replaced " + std::to_string(there.journals_replaced) +
           " times, connections closed with it " + std::to_string(there.closed_with_journals) + "\n";
  }
  if (there.engines.empty()) return out + "no engine is connected\n";
  for (const auto& one : there.engines) out += describe(one);
  return out;
}

bool has_active(const net::engines_frame& there) noexcept {
  return std::any_of(there.engines.begin(), there.engines.end(),
                     [](const auto& one) { return one.state == net::listed_engine::kind::serves; });
}

std::optional<net::engines_frame> ask_holder(const std::string& socket_path) {
  constexpr std::chrono::seconds limit{2};
  auto connected = net::connect_frames(socket_path);
  if (!connected) return std::nullopt;
  boost::asio::io_context io;
  std::optional<net::engines_frame> answer;
  const auto socket = std::make_shared<net::frame_socket>(io, std::move(*connected), 1);
  net::frame_socket::handlers told;
  told.on_frame = [&](const net::frame_socket::received& got) {
    if (const auto* const there = std::get_if<net::engines_frame>(&got.what.body)) answer = *there;
  };
  socket->start(std::move(told));
  socket->send({1, net::list_frame{}});
  socket->read_within(limit);
  socket->close();
  return answer;
}

}  // namespace orcd::app
