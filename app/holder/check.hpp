// Asks a running holder how it is, for probes that run a command.
#pragma once

#include <optional>
#include <string>

#include "net/failover/holder_frames.hpp"

namespace orcd::app {

/// Nullopt where no holder answers at the socket within 2 s.
[[nodiscard]] std::optional<net::engines_frame> ask_holder(const std::string& socket_path);
/// The holder and its engines, a line each, for people. Pure.
[[nodiscard]] std::string describe(const net::engines_frame& there);
[[nodiscard]] bool has_active(const net::engines_frame& there) noexcept;

}  // namespace orcd::app
