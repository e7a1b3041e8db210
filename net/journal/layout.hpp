// The journal's memory: one shared memory object that the holder of the sockets keeps while engines come and
// go. The header, a record for each place in the holder's table of connections, the links of the blocks, the
// blocks. Private to net/journal.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace orcd::net::journal_layout {

inline constexpr std::uint64_t magic = 0x314C'4E52'4A44'4352;  // "RCDJRNL1"
inline constexpr std::uint32_t block_bytes = 16 * 1024;
inline constexpr std::uint32_t no_block = 0xFFFF'FFFF;

/// One event that a job's output was made from; see journal_event.
struct stored_event {
  std::uint16_t job;
  std::uint8_t kind;
  std::uint8_t unused;
  std::int32_t token;
};
static_assert(sizeof(stored_event) == 8 && block_bytes % sizeof(stored_event) == 0);

/// What holds of a connection from one moment to the next. Offsets count from the connection's first byte in
/// either direction.
struct state {
  std::uint64_t log_begin;      ///< offset of the first received byte that is kept: the request's first
  std::uint64_t request_bytes;  ///< of the kept bytes, those of the request; 0 while it is being read
  std::uint64_t sent_before;    ///< bytes of output before the write in hand, all of which the kernel took
  std::uint64_t out_bytes;      ///< of the write in hand
  std::uint64_t events_told;    ///< events that the output up to and with this write tells of
  std::array<std::uint64_t, 2> entropy;  ///< what the request's ids and seeds are made from
  std::int64_t received_wall_ns;         ///< when the request's head was whole, since 1970
  std::int64_t received_steady_ns;       ///< the same by the monotonic clock
  std::uint64_t maker;                   ///< what must be equal for the request to be gone on with
  std::uint32_t log_head;                ///< first block of the kept bytes
  std::uint32_t out_head;
  std::uint32_t events_head;
  std::uint32_t flags;    ///< journal_flags
  std::uint32_t resumed;  ///< how many engines have died with this request
  std::uint32_t ran;      ///< of them, those that died while it ran
};

struct record {
  std::atomic<std::uint64_t> serial;   ///< of the connection; 0 = the record is free
  std::atomic<std::uint32_t> status;   ///< record_status
  std::atomic<std::uint32_t> current;  ///< which of the states holds: 0 or 1
  std::array<state, 2> states;
};

enum record_status : std::uint32_t {
  kept = 1,       ///< the record tells everything
  abandoned = 2,  ///< there was no room for all of it: the connection ends with its engine
};

struct header {
  std::uint64_t magic;
  std::uint32_t records;
  std::uint32_t blocks;
};

/// What an engine leaves for the next one beside the records; behind the header, in the same page.
struct marks {
  std::atomic<std::uint32_t> in_order;  ///< 1: the engine before has left on purpose
  std::atomic<std::uint32_t> alone;     ///< the place, plus 1, of the request that runs by itself; 0: none
  /// A bit for each place: all that is left of its request is to wait for its turn. Written by the GPU
  /// thread, too.
  std::array<std::atomic<std::uint64_t>, 64> waits;
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace orcd::net::journal_layout
