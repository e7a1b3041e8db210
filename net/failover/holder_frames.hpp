// What an engine and the holder say to each other, about client connections here and about the weights in
// weights_frames.hpp: one frame a packet of a SOCK_SEQPACKET socket, a header of 16 bytes and a body of fixed
// fields, in the machine's own byte order, since both are processes of one host. Descriptors travel beside a
// frame. Pure: bytes in, a frame or an error out. Source: the holder's protocol of the failover plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"
#include "net/failover/frame_limits.hpp"
#include "net/failover/weights_frames.hpp"
#include "net/journal/answer_identity.hpp"

namespace orcd::net {

/// Client connections that a holder has at a time.
inline constexpr std::uint32_t held_sockets_max = 4'096;

/// A connection in the holder's table: the serial tells the connections apart that had the same slot.
struct held_place {
  std::uint32_t slot = 0;    ///< below held_sockets_max
  std::uint64_t serial = 0;  ///< of one connection only, ever; never 0
  bool operator==(const held_place&) const = default;
};

/// From an engine, first of all; beside it its own pidfd.
struct hello_frame {
  std::uint32_t engine = 0;
  std::uint32_t system_port = 0;  ///< 0: none
  bool operator==(const hello_frame&) const = default;
};
/// From the holder, the answer, and again when that changes: whether it has a journal and a listening socket,
/// which then are beside it in this order. One that has none waits for an offer.
struct welcome_frame {
  bool complete = false;
  bool operator==(const welcome_frame&) const = default;
};
/// From an engine: it is the active one.
struct take_over_frame {
  std::uint32_t room = held_sockets_max;  ///< connections that it has descriptors for; at least 1
  bool operator==(const take_over_frame&) const = default;
};
/// Connections, each with its socket beside the frame. From the holder: one that is new, or some of those
/// that it held when an engine took over. From an engine: those that belong to an offer.
struct sockets_frame {
  bool fresh = false;  ///< accepted just now
  bool last = false;   ///< the end of what an engine takes over, or offers
  /// No connection has had this serial or a higher one, apart from those in this frame.
  std::uint64_t next_serial = 1;
  std::vector<held_place> places{};
  bool operator==(const sockets_frame&) const = default;
};
/// From an engine: it has shut this connection down, and closed its own socket of it.
struct closed_frame {
  held_place which{};
  bool operator==(const closed_frame&) const = default;
};
/// From an engine: it is no longer the active one.
struct yield_frame {
  bool rests = false;  ///< the device does nothing for it any more
  bool operator==(const yield_frame&) const = default;
};
/// From an engine's io thread, twice a second or so.
struct ping_frame {
  std::uint64_t progress = 0;  ///< another number each time that its GPU thread has moved
  bool operator==(const ping_frame&) const = default;
};
/// From the active engine to a holder that lost everything: beside it the journal and the listening socket;
/// its connections follow in frames of sockets.
struct offer_frame {
  bool operator==(const offer_frame&) const = default;
};
/// From the holder, before the last sockets of a takeover: connections for which the engine has no room. Each
/// comes in a frame of its own when the engine has closed another one.
struct waiting_frame {
  std::vector<held_place> places{};
  bool operator==(const waiting_frame&) const = default;
};
/// A query of its health, from any peer.
struct probe_frame {
  bool operator==(const probe_frame&) const = default;
};
/// From an engine: it stands by, and answers as all engines of this identity do. Again when it learns the
/// digest of its weights.
struct standby_frame {
  answer_identity answers{};
  bool operator==(const standby_frame&) const = default;
};
/// From an engine: a query of health, and of who stands by that answers as engines of this identity do.
struct who_frame {
  answer_identity answers{};
  bool operator==(const who_frame&) const = default;
};
/// From the holder to the active engine: the engines before it have ended with all that they gave the device
/// to do.
struct rest_frame {
  bool operator==(const rest_frame&) const = default;
};
/// The answer to probe_frame or who_frame.
struct report_frame {
  std::uint32_t engines = 0;   ///< that are connected
  std::uint32_t standbys = 0;  ///< of them, those that stand by and move; of who_frame: and answer alike
  std::uint32_t others = 0;    ///< those that stand by and answer otherwise than who_frame's
  std::uint32_t differs = 0;   ///< difference() of the first of those others
  std::uint32_t active = no_engine;  ///< the one that serves
  std::uint32_t sockets = 0;         ///< held
  bool complete = false;             ///< it has a journal and a listening socket
  bool settled = false;              ///< the active one goes on with all that it took over
  bool operator==(const report_frame&) const = default;
};
/// From the holder to an engine: what an operator has told the holder by a signal.
struct signal_frame {
  enum class kind : std::uint32_t {
    hang_up = 1,  ///< reads keys and log level again
    hand_over,    ///< has another engine serve
  };
  kind what = kind::hang_up;
  bool operator==(const signal_frame&) const = default;
};
/// From an engine: its operator had it read keys and log level again. The others are told to do the same.
struct reloaded_frame {
  bool operator==(const reloaded_frame&) const = default;
};
/// From the active engine: it goes on with all that it took over.
struct settled_frame {
  bool operator==(const settled_frame&) const = default;
};
/// From the active engine, before it goes on with anything: it cannot read the journal. The holder, if it
/// cannot either, makes another one, tells it by welcome_frame, and ends the connections that the old one is
/// needed for. The engine asks for the others by take_over_frame.
struct journal_damaged_frame {
  bool operator==(const journal_damaged_frame&) const = default;
};
/// From any peer: which engines are there?
struct list_frame {
  bool operator==(const list_frame&) const = default;
};
/// An engine that is connected.
struct listed_engine {
  enum class kind : std::uint32_t {
    loads = 1,
    stands_by,
    serves,
    leaves,  ///< it has served, and does no more
  };
  std::uint32_t engine = 0;
  kind state = kind::loads;
  bool is_silent = false;         ///< it serves or stands by, and has given no sign of life for a while
  std::uint32_t process = 0;      ///< its number where the holder is; 0: it has none there
  std::uint32_t system_port = 0;  ///< 0: none
  bool operator==(const listed_engine&) const = default;
};
/// The answer to list_frame.
struct engines_frame {
  std::uint32_t port = 0;     ///< the clients'
  std::uint32_t sockets = 0;  ///< held
  bool complete = false;      ///< it has a journal and a listening socket
  std::vector<listed_engine> engines{};
  std::uint32_t journals_replaced = 0;     ///< by this holder, since nobody could read the one before
  std::uint32_t closed_with_journals = 0;  ///< connections that ended with those
  bool operator==(const engines_frame&) const = default;
};

using frame =
    std::variant<hello_frame, welcome_frame, take_over_frame, sockets_frame, closed_frame, yield_frame,
                 ping_frame, offer_frame, probe_frame, report_frame, claim_frame, grant_frame, deny_frame,
                 put_frame, commit_frame, get_frame, piece_frame, done_frame, ask_frame, weights_state_frame,
                 waiting_frame, standby_frame, who_frame, rest_frame, signal_frame, reloaded_frame,
                 list_frame, engines_frame, settled_frame, journal_damaged_frame>;

struct numbered_frame {
  std::uint32_t request = 0;  ///< an answer has its question's
  frame body{};
  bool operator==(const numbered_frame&) const = default;
};

/// Descriptors that belong beside a frame.
[[nodiscard]] std::size_t descriptors_of(const frame& body) noexcept;
/// A frame that decode_frame() takes: at most frame_descriptors_max sockets, held_sockets_max that wait and
/// engine_ids engines.
[[nodiscard]] std::string encode_frame(const numbered_frame& what);
/// `descriptors`: how many came beside it. Errors (invalid_request) name what was wrong, the limit and the
/// value.
[[nodiscard]] engine::result<numbered_frame> decode_frame(std::span<const std::byte> packet,
                                                          std::size_t descriptors);

}  // namespace orcd::net
