// Socket activation (sd_listen_fds(3)): a service manager opens the listening socket and keeps it, so that
// connections made while the worker restarts wait instead of being refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/error.hpp"

namespace orcd::app {

/// A TCP socket that listens already.
struct passed_listener {
  int descriptor = -1;
  std::string address;  ///< IPv4 or IPv6, as text
  std::uint16_t port = 0;
};

/// What was passed to this process; nullopt when nothing was, or to another process (LISTEN_PID). The
/// descriptor is closed by exec. To be called once, before other descriptors are opened. Errors
/// (invalid_request): LISTEN_FDS or LISTEN_PID is no number, several sockets, one that is not TCP or does not
/// listen; each is a sentence for the operator.
[[nodiscard]] engine::result<std::optional<passed_listener>> take_passed_listener();

/// Address and port of a TCP socket. Errors: it is none.
[[nodiscard]] engine::result<passed_listener> name_of(int descriptor);

/// Why the socket is not the one that was configured; nullopt when it is. `host` and `port` are what the
/// operator gave; nullopt: whatever was passed. An IPv6 socket of any address serves IPv4 as well, so that it
/// is "0.0.0.0", too. Pure.
[[nodiscard]] std::optional<std::string> disagreement(const passed_listener& listener,
                                                      const std::optional<std::string>& host,
                                                      std::optional<std::uint16_t> port);

}  // namespace orcd::app
