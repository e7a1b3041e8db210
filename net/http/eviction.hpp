// Which connections are closed when the limit is reached and a new one comes, and which when the server
// stops. Pure. Private to net/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orcd::net {

/// What a connection is doing, as far as closing it is concerned.
enum class connection_phase {
  head,     ///< no whole request head is here: idle between two requests, or slow
  body,     ///< its request's body is on its way
  request,  ///< a request is being answered: never closed for another
  unread,   ///< the jobs have ended and the client has not read the answer yet
  closing   ///< its last answer was written; it is given time to read it
};

struct eviction_candidate {
  connection_phase phase = connection_phase::head;
  /// For how long it has been in this phase; in `body`, for how long more bytes have been due; in `unread`,
  /// since when the client has taken nothing.
  std::chrono::milliseconds age{};
};

/// How long a connection may wait for a head, for the next part of a body or for the reader of an answer
/// before it may be closed for another.
constexpr std::chrono::milliseconds eviction_grace{2'000};
/// A body that comes slower than this may be closed for another connection.
constexpr std::uint64_t body_bytes_per_second_min = 4'096;

/// Whether nothing is lost with a connection when the server stops: it waits for a head, and no byte of one
/// has come, neither to its buffer (`received`) nor to its socket (`readable`).
[[nodiscard]] constexpr bool is_idle(connection_phase phase, std::size_t received,
                                     std::size_t readable) noexcept {
  return phase == connection_phase::head && received == 0 && readable == 0;
}

/// When the next part of a body is due, after this many bytes came: each byte buys time at the least rate,
/// but never beyond now + eviction_grace. `due`: what this returned before; at the beginning, now +
/// eviction_grace.
[[nodiscard]] std::chrono::steady_clock::time_point next_part_due(std::chrono::steady_clock::time_point due,
                                                                  std::chrono::steady_clock::time_point now,
                                                                  std::uint64_t bytes) noexcept;

/// Indices in `all` of the connections to close, at most `wanted`: closing ones first, then the heads that
/// have been waited for longest, then the bodies that are most overdue, then the answers that were unread for
/// longest.
[[nodiscard]] std::vector<std::size_t> choose_evicted(std::span<const eviction_candidate> all,
                                                      std::size_t wanted,
                                                      std::chrono::milliseconds head_grace = eviction_grace);

}  // namespace orcd::net
