// The places at which an engine of the test of kills dies: between two calls of the journal's library and the
// kernel, at any instruction of a library's call, and at any moment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orcd::kills {

enum class point : std::uint8_t {
  socket_passed,   ///< the socket has come from the holder, and has no record
  socket_kept,     ///< it has one, and nothing was read
  received,        ///< bytes have left the kernel, and nobody was told
  request_begun,   ///< the record of a request has begun
  request_whole,   ///< the request is there, its answer has not begun
  published,       ///< a part of an answer is in the journal, and not sent
  sent,            ///< the kernel has taken some of it, and nobody was told
  last_published,  ///< the same of the last part of an answer
  last_sent,
  answered,     ///< the answer is sent and noted, the next request has not begun
  closing,      ///< the end is in the journal, the socket is not shut down
  shut,         ///< it is, and what the client sends is dropped
  freed,        ///< the record is free, the holder does not know
  taking_over,  ///< some connections of a dead engine are judged, others not
  instruction,  ///< some instruction of a call of the library
  moment,       ///< from outside
  none,         ///< never
};
inline constexpr std::size_t points = 16;

inline constexpr std::array<std::string_view, points + 1> point_names = {
    "socket passed",  "socket kept", "receive / note", "request begun",     "request whole",
    "publish / send", "send / note", "last publish",   "last send",         "answer sent",
    "close / shut",   "shut / gone", "record freed",   "while taking over", "any instruction",
    "any moment",     "none"};

/// How often a point is passed at most before it kills: some are rare.
inline constexpr std::array<std::uint32_t, points + 1> passes_max = {4,  4, 60, 10, 10, 60,  60, 10, 10,
                                                                     10, 3, 3,  4,  12, 150, 40, 1};

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
/// The processor traps after each instruction; the thread sanitizer holds such signals back.
inline constexpr bool has_instructions = true;
#else
inline constexpr bool has_instructions = false;
#endif

}  // namespace orcd::kills
