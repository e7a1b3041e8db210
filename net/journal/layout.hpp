// The journal's memory: one shared memory object that the holder of the sockets keeps while engines come and
// go. The head, a record for each place in the holder's table of connections, the links of the blocks, the
// blocks, and the head again. Private to net/journal.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace orcd::net::journal_layout {

inline constexpr std::size_t page_bytes = 4'096;
inline constexpr std::uint32_t places = 4'096;  ///< of connections
inline constexpr std::uint32_t block_bytes = 16 * 1024;
inline constexpr std::uint32_t no_block = 0xFFFF'FFFF;

/// One event that a job's output was made from; see journal_event.
struct stored_event {
  std::uint16_t job;
  std::uint8_t kind;
  std::uint8_t unwritten;
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
  std::uint64_t maker;                   ///< the engine_entry of the engine that began with the request
  std::uint32_t log_head;                ///< first block of the kept bytes
  std::uint32_t out_head;
  std::uint32_t events_head;
  std::uint32_t flags;    ///< journal_flags
  std::uint32_t resumed;  ///< how many engines have died with this request
  std::uint32_t ran;      ///< of them, those that died while it ran
  std::uint64_t sum;      ///< sum_of() it
};

struct record {
  std::atomic<std::uint64_t> serial;   ///< of the connection; 0 = the record is free
  std::atomic<std::uint32_t> status;   ///< record_status
  std::atomic<std::uint32_t> current;  ///< which of the states holds: word_of() its index
  std::array<state, 2> states;
};

/// No byte that is spoilt makes one of these, or one of `current`, another one.
enum record_status : std::uint32_t {
  kept = 0x7470'656B,       ///< the record tells everything
  abandoned = 0x6576'6967,  ///< there was no room for all of it: the connection ends with its engine
  spoilt = 0x6C69'6F70,     ///< what it tells cannot be: the connection ends with its engine
};
constexpr std::uint32_t word_of(std::uint32_t index) noexcept {
  return 0U - index;
}
constexpr std::uint32_t index_of(std::uint32_t current) noexcept {
  return current & 1U;
}

/// Of everything before it in the state, and of the record's serial, so that what an older connection left is
/// nobody's. Any one word that is spoilt changes it.
[[nodiscard]] inline std::uint64_t sum_of(const state& s, std::uint64_t serial) noexcept {
  constexpr std::uint64_t prime = 0x0000'0100'0000'01B3;  // FNV-1a's; odd, so that no two words become one
  constexpr int turn = 23;  // what is high in one word meets what is low in the next
  std::array<std::uint64_t, offsetof(state, sum) / sizeof(std::uint64_t)> words{};
  static_assert(sizeof words == offsetof(state, sum));
  std::memcpy(words.data(), &s, sizeof words);
  std::uint64_t sum = ~serial;
  for (const std::uint64_t word : words) sum = std::rotl((sum ^ word) * prime, turn);
  return sum;
}

/// The state that holds of the connection with this serial; null where the record is spoilt.
[[nodiscard]] inline const state* holding(const record& r, std::uint64_t serial) noexcept {
  const std::uint32_t current = r.current.load(std::memory_order_acquire);
  if (current != word_of(index_of(current))) return nullptr;
  const state& s = r.states[index_of(current)];
  return s.sum == sum_of(s, serial) ? &s : nullptr;
}

// Where the parts are, in bytes from the beginning.
inline constexpr std::size_t marks_at = 64;
inline constexpr std::size_t engines_at = 1'024;
inline constexpr std::size_t records_at = page_bytes;
inline constexpr std::size_t links_at =
    (records_at + places * sizeof(record) + page_bytes - 1) / page_bytes * page_bytes;

/// Blocks that fit into this much memory beside their links; they begin at a page, and behind them is one
/// more for the head's second copy.
[[nodiscard]] constexpr std::uint32_t blocks_in(std::size_t bytes) noexcept {
  if (bytes <= links_at + 2 * page_bytes) return 0;
  return static_cast<std::uint32_t>((bytes - links_at - 2 * page_bytes) /
                                    (block_bytes + sizeof(std::uint32_t)));
}

/// What an engine leaves for the next one beside the records; behind the head, in the same page.
struct marks {
  std::atomic<std::uint32_t> in_order;  ///< 1: the engine before has left on purpose
  std::atomic<std::uint32_t> alone;     ///< the place, plus 1, of the request that runs by itself; 0: none
  /// A bit for each place: all that is left of its request is to wait for its turn. Written by the GPU
  /// thread, too.
  std::array<std::atomic<std::uint64_t>, 64> waits;
};

/// An engine that has begun with requests; behind the marks. The key, which is made of all but the digest, is
/// written last.
struct engine_entry {
  std::atomic<std::uint64_t> key;                                        ///< 0: free
  std::atomic<std::uint64_t> parts, files, mapped, digest, fingerprint;  ///< see journal_engine
};
struct engines {
  std::atomic<std::uint32_t> next;  ///< the entry that is used next: where all are taken, the oldest
  std::atomic<std::uint32_t> last;  ///< that of the engine that entered last, whose requests may run
  std::array<engine_entry, 32> entries;
};

static_assert(marks_at + sizeof(marks) <= engines_at && engines_at + sizeof(engines) <= page_bytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace orcd::net::journal_layout
