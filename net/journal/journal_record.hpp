// What an engine writes into the journal of one connection. io thread only; the journal must outlive it.
//
// Every call that needs room may find none. Then the record is abandoned: the connection works on and ends
// with its engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "net/journal/journal.hpp"

namespace orcd::net {

/// What can be said of an answer with the bytes that are about to be sent.
enum journal_flags : std::uint32_t {
  journal_interim = 1,     ///< 100 Continue was among the output since the request began
  journal_head = 2,        ///< the head of the request's stream was
  journal_answered = 4,    ///< nothing of the answer follows
  journal_keep_alive = 8,  ///< with journal_answered: another request may follow
  journal_closing = 16,    ///< nothing more is sent, and what comes is dropped
  journal_admitted = 32,   ///< the engine that read it let it in: no other one asks for its key again
};

/// One event of a job that went into the output, as far as a successor must know it.
struct journal_event {
  enum class kind : std::uint8_t { started, progress, token, beside, first_token, ended };
  std::uint16_t job = 0;  ///< its index in the request
  kind what = kind::token;
  std::int32_t token = -1;  ///< of the output; of progress: how much of the prompt was
                            ///< computed; of first_token: milliseconds since the request came
  /// Of token: how many of the output's tokens, from this one back, have log probabilities that are still to
  /// be written; all_unwritten: it may be all of them.
  std::uint8_t unwritten = 0;

  friend bool operator==(const journal_event&, const journal_event&) = default;
};

inline constexpr std::uint8_t all_unwritten = 255;

/// What a request's ids and seeds are made from, and when it came.
struct request_origin {
  std::array<std::uint64_t, 2> entropy{};
  std::int64_t received_wall_ns = 0;    ///< since 1970
  std::int64_t received_steady_ns = 0;  ///< by the monotonic clock, which all processes of a host share
  std::uint64_t maker = 0;              ///< what journal::enter() told the engine that began with it
};

class journal_record {
 public:
  /// A record for a connection whose bytes nobody has read or written yet.
  journal_record(journal& owner, std::uint32_t slot, std::uint64_t serial);
  /// Goes on with a record that a dead engine left, after `received` bytes of input in all (recovery.hpp).
  struct taken_over {};
  journal_record(taken_over, journal& owner, std::uint32_t slot, std::uint64_t received);
  /// Frees the record. The socket must be shut down before.
  ~journal_record();
  journal_record(const journal_record&) = delete;
  journal_record& operator=(const journal_record&) = delete;

  [[nodiscard]] bool abandoned() const noexcept { return abandoned_; }
  /// The journal is another engine's, and with it the connection.
  [[nodiscard]] bool is_left() const noexcept { return journal_.is_left(); }
  [[nodiscard]] std::uint32_t slot() const noexcept { return slot_; }
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }

  /// Where the next bytes from the client are to be received; empty once the record is abandoned.
  [[nodiscard]] std::span<std::byte> input_space();
  /// So many bytes were received there, or elsewhere where there was no room.
  void input_received(std::size_t bytes) noexcept { received_ += bytes; }

  /// A new request begins, of which `input` has been received already: the last bytes that were. A record
  /// that was abandoned is kept again, if there is room now.
  void begin_request(std::string_view input);
  /// Its head is whole. A request that is gone on with keeps the origin that it has.
  void set_origin(const request_origin& origin) noexcept;
  /// It is whole; the last `left_over` bytes that were received belong to the next. `flags` as in output().
  void end_of_request(std::uint64_t left_over, std::uint32_t flags = 0) noexcept;
  /// The sending side is about to be shut down, and what comes from then on is not kept.
  void closing() noexcept;
  /// One more engine has died with it; `ran`: and it may have been the reason.
  void count_resumed(bool ran) noexcept;
  /// See journal::set_waits(). Of the request: a new one does not.
  void waits(bool so) noexcept;
  [[nodiscard]] journal& owner() const noexcept { return journal_; }

  /// Notes an event whose output has been made and goes with the next output().
  void event(const journal_event& event);
  /// These bytes are sent next; the write before is over. `flags` are added to those of the request.
  void output(std::string_view bytes, std::uint32_t flags);

 private:
  using state = journal_layout::state;
  struct chain {
    std::uint32_t first = journal_layout::no_block;
    std::uint32_t last = journal_layout::no_block;
    std::uint32_t blocks = 0;
  };

  [[nodiscard]] journal::record& here() const noexcept { return journal_.at(slot_); }
  [[nodiscard]] const state& now() const noexcept;
  /// The index of the state that does not hold.
  [[nodiscard]] std::uint32_t other() const noexcept;
  /// Makes `next` hold, with its sum, in one store.
  void commit(state next) noexcept;
  /// One more block at the end; false (and abandoned) where there is none.
  bool extend(chain& c);
  bool reserve(chain& c, std::uint64_t bytes);
  /// Copies into the chain at an offset; there is room.
  void put(const chain& c, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;
  /// Gives back the blocks behind the one that holds the last of so many bytes, or of none.
  void shorten(chain& c, std::uint64_t bytes) noexcept;
  void release(chain& c) noexcept;
  [[nodiscard]] chain measure(std::uint32_t first) const noexcept;
  void abandon() noexcept;
  /// Nothing is written any more: it was given up, or the journal is another engine's.
  [[nodiscard]] bool is_silent() const noexcept { return abandoned_ || journal_.is_left(); }

  journal& journal_;
  const std::uint32_t slot_;
  std::uint64_t serial_;
  bool abandoned_ = false;
  std::uint64_t received_ = 0;     ///< bytes of input in all
  std::uint64_t sent_before_ = 0;  ///< bytes of output in all, but for the write in hand
  std::uint64_t sending_ = 0;      ///< those of it
  std::uint64_t events_ = 0;       ///< of this request, told or not
  chain log_, events_chain_;
  std::array<chain, 2> out_;  ///< of either state; the one that does not hold is written next
};

}  // namespace orcd::net
