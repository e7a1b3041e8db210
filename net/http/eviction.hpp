// Which connections are closed when the limit is reached and a new one comes, and which when the server
// stops. Pure. Private to net/.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "net/http/place_shares.hpp"

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
  std::uint64_t pace = 0;  ///< of a body, see body_pace()
  place_claim claim{};
};

/// Who wants a place. Without shares it is somebody who has none yet.
struct eviction_asker {
  place_claim claim{};
  /// Its request's head is here. Others may then be closed that have sent none, however short they are here,
  /// and bodies that come as they should, of shares that are larger than its own.
  bool has_head = false;
  bool beyond_few = false;  ///< see place_shares::is_beyond_few()
  std::size_t few = 1;      ///< see place_shares::few()
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

/// By which the slowest of several bodies is found: bytes a second from its beginning on, as if it had begun
/// with what the grace allows for. So one that has just begun is not the slowest, and of those that all come
/// at the least rate the oldest is.
[[nodiscard]] std::uint64_t body_pace(std::uint64_t bytes, std::chrono::milliseconds since_begin) noexcept;

/// Indices in `all` of the connections to close for the asker, at most `wanted`, in this order:
///  1. closing ones;
///  2. heads that have been waited for longest, first those of shares with more than few;
///  3. bodies of shares with more than few, of the largest share the slowest first;
///  4. heads within their grace, if the asker's is here;
///  5. the bodies of the rest that are most overdue, and then the answers that were unread for longest;
///  6. the bodies of the rest, as far as a share is larger than the asker's.
/// Nothing of a share that is smaller than the asker's is closed but 1 and heads beyond their grace, and no
/// body that comes as it should unless the asker's share is the smaller one afterwards, too, or both are then
/// equal. In a tenant's share the same holds for what its addresses have of it.
[[nodiscard]] std::vector<std::size_t> choose_evicted(std::span<const eviction_candidate> all,
                                                      std::size_t wanted, const eviction_asker& asker);

}  // namespace orcd::net
