// What a holder has its service manager keep, so that clients' connections outlive a restart of the holder in
// which no engine lives: names for it, and what of it is taken up again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/holder/stored_weights.hpp"
#include "app/service/descriptor_store.hpp"
#include "net/failover/holder_frames.hpp"

namespace orcd::app {

inline constexpr std::string_view stored_listener = "listener";
inline constexpr std::string_view stored_journal = "journal";
/// Descriptors that are kept, at most: all connections, listener, journal and weights.
inline constexpr std::size_t stored_max = net::held_sockets_max + 2 + stored_weights_max;

/// The name of a connection, "connection-SLOT-SERIAL", and its place by that name.
[[nodiscard]] std::string stored_name(net::held_place place);
[[nodiscard]] std::optional<net::held_place> stored_place(std::string_view name);

struct stored_state {
  net::file_descriptor listener{};
  net::file_descriptor journal{};
  std::vector<std::pair<net::held_place, net::file_descriptor>> connections{};
  std::vector<std::string> refused{};  ///< names of what is not this holder's, which is closed

  [[nodiscard]] bool is_empty() const noexcept { return !listener && !journal && connections.empty(); }
};

/// By name, if they are what the name says; the first of each. A listener must be of this address and port.
/// Connections without a journal are refused: nobody could go on with what they carry.
[[nodiscard]] stored_state sort_stored(std::vector<stored_descriptor> passed, const std::string& host,
                                       std::uint16_t port);

}  // namespace orcd::app
