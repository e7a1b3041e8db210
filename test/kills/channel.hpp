// What the holder of sockets and an engine of the test of kills tell each other, over a SOCK_SEQPACKET pair,
// and what all of them count in shared memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "net/failover/file_descriptor.hpp"

namespace orcd::kills {

enum class word : std::uint32_t {
  take_over,  ///< from an engine: it has the lock
  inherited,  ///< from the holder, with a socket: a connection of the engine before
  all,        ///< those were all
  accepted,   ///< with a socket: a new connection
  closed,     ///< from an engine: the connection is over
};

struct message {
  word what = word::all;
  std::uint32_t slot = 0;
  std::uint64_t serial = 0;
};

struct received_message {
  message told{};
  net::file_descriptor socket{};
};

/// False where the other side is gone.
bool tell(int channel, const message& what, int socket = -1);
/// Waits for one. Nothing where the other side is gone.
[[nodiscard]] std::optional<received_message> hear(int channel);

inline constexpr std::uint32_t slots_max = 256;

/// What an engine knew of a connection at its last instruction, apart from the journal: the kernel may have
/// taken more by then. Only the engine that has the lock writes here.
struct noted_bytes {
  std::uint64_t serial = 0;
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};

struct board {
  std::uint64_t taken_over = 0;        ///< connections that an engine found when it took over
  std::uint64_t in_request = 0;        ///< of them, those in the middle of a request
  std::uint64_t lost = 0;              ///< that were closed
  std::uint64_t conflicts = 0;         ///< where journal and kernel contradict one another
  std::uint64_t wrong_facts = 0;       ///< records that tell what never was
  std::uint64_t read_ambiguities = 0;  ///< more had been read than the dead engine knew
  std::uint64_t sent_ambiguities = 0;  ///< more had been sent
  std::uint64_t unsent = 0;            ///< connections with output that the kernel had not taken
  std::uint64_t under_way = 0;  ///< answers of this engine with some tokens sent, and not the last ones
  std::uint64_t found_under_way =
      0;                        ///< of the dead engine, by the journal: tokens told, and not the last ones
  std::uint64_t found_all = 0;  ///< 1 when this engine has judged all that the dead one left
  std::array<noted_bytes, slots_max> noted{};
};

}  // namespace orcd::kills
