// A client's connection on its way between the holder and an engine.
#pragma once

#include <cstdint>

#include "net/failover/file_descriptor.hpp"

namespace orcd::net {

/// Whoever has it shuts it down before closing it, since the holder's duplicate would keep the client from
/// seeing the end.
struct held_socket {
  std::uint32_t slot = 0;    ///< its place in the holder's table, below held_sockets_max
  std::uint64_t serial = 0;  ///< of this connection only, ever; never 0
  file_descriptor socket{};
};

}  // namespace orcd::net
