#include "app/service/passed_listener.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <array>
#include <cstring>
#include <system_error>

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

error passed_wrongly(const std::string& what) {
  return {errc::invalid_request, "socket activation: " + what, "port"};
}

bool is_any(const std::string& address) {
  return address == "0.0.0.0" || address == "::";
}

}  // namespace

result<passed_listener> name_of(int descriptor) {
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return passed_wrongly(std::generic_category().message(errno));
  }
  passed_listener out;
  out.descriptor = descriptor;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (name.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &name, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    out.port = ntohs(v4.sin_port);
  } else if (name.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &name, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    out.port = ntohs(v6.sin6_port);
  } else {
    return passed_wrongly("the passed socket is not TCP; the socket unit needs ListenStream=ADDRESS:PORT");
  }
  out.address = text.data();
  return out;
}

result<std::optional<passed_listener>> take_passed_listener() {
  const int count = ::sd_listen_fds(0);
  if (count < 0) {
    return passed_wrongly("LISTEN_FDS and LISTEN_PID cannot be read: " +
                          std::generic_category().message(-count));
  }
  if (count == 0) return std::optional<passed_listener>();
  if (count > 1) {
    return passed_wrongly(std::to_string(count) +
                          " sockets were passed; the worker serves one, so that the " +
                          "socket unit needs one ListenStream=");
  }
  constexpr int first = SD_LISTEN_FDS_START;
  if (::sd_is_socket(first, AF_UNSPEC, SOCK_STREAM, -1) <= 0) {
    return passed_wrongly(
        "descriptor 3 is no stream socket; the socket unit needs ListenStream=ADDRESS:PORT");
  }
  if (::sd_is_socket(first, AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
    return passed_wrongly("the passed socket does not listen; the socket unit needs Accept=no");
  }
  auto listener = name_of(first);
  if (!listener) return listener.error();
  return std::optional<passed_listener>(std::move(*listener));
}

std::optional<std::string> disagreement(const passed_listener& listener,
                                        const std::optional<std::string>& host,
                                        std::optional<std::uint16_t> port) {
  const auto passed = listener.address + " port " + std::to_string(listener.port);
  if (port && *port != 0 && *port != listener.port) {
    return "--port is " + std::to_string(*port) + ", but the socket that the service manager passed is " +
           passed + ": make ListenStream= of the socket unit and --port agree, or leave --port out";
  }
  if (host && *host != listener.address && !(is_any(*host) && is_any(listener.address))) {
    return "--host is " + *host + ", but the socket that the service manager passed is " + passed +
           ": make ListenStream= of the socket unit and --host agree, or leave --host out";
  }
  return std::nullopt;
}

}  // namespace orcd::app
