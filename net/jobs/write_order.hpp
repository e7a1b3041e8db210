// What is written to a client while the jobs of its request run, and in which order; and what a read on that
// connection says about the client. Pure: run_jobs.cpp does the reading and writing. Private to net/.
#pragma once

#include <cstddef>
#include <string>

namespace orcd::net {

/// What may arrive on a connection while it is answered: a next request that is kept for later.
constexpr std::size_t pipelined_bytes_max = 16 * 1024;

/// How the answer is sent, and how far it is.
struct write_state {
  bool streams = true;   ///< events while the jobs run; false: one reply when they are over
  bool chunked = true;   ///< HTTP/1.1; HTTP/1.0 ends a body by closing the connection
  bool writable = true;  ///< no write has failed, and the last bytes were not written yet
  bool must_ask =
      false;          ///< the client has closed its sending side: something must be sent to see if it reads
  bool over = false;  ///< nothing follows the frames that there are now
};

struct next_write {
  std::string bytes{};       ///< empty: nothing is written now
  bool final_reply = false;  ///< the one reply of a request that does not stream is written instead
};

/// What to write now; `frames` are the events that have come since the last call. A client that may be gone
/// is asked first: by a comment within a stream, by 100 Continue before a reply, both of which clients skip.
/// A reply that is due needs no question before it. Where nothing can be written any more, frames are
/// dropped.
[[nodiscard]] next_write plan_write(const write_state& state, std::string frames);

/// What a read during the answer says about the client.
enum class client_state {
  present,      ///< it is there; what it has sent is kept for later
  half_closed,  ///< it sends no more, and may still read or be gone
  gone,         ///< or it sends more than is kept
};

/// `end` is an orderly end of input, `failed` any other failure; `buffered` bytes have arrived so far. An
/// answer of HTTP/1.0 that does not stream cannot ask (it has no 100 Continue), so its client counts as gone.
[[nodiscard]] client_state judge_read(const write_state& state, bool end, bool failed,
                                      std::size_t buffered) noexcept;

}  // namespace orcd::net
