// What a session makes of a read: is the request here, is the client gone, or is a refusal due; and what
// becomes of a body that nobody wants. Pure: session.cpp reads. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace orcd::net {

/// How an attempt to read ended.
enum class read_result {
  ok,
  closed,    ///< the client is gone, or has sent nothing: it gets no answer
  too_slow,  ///< refused with 408
  invalid    ///< refused with 400 or 413
};

/// Whether the client is told before the connection is closed.
[[nodiscard]] constexpr bool is_refusal(read_result result) noexcept {
  return result == read_result::too_slow || result == read_result::invalid;
}

/// One read of a request's head, after it has completed.
struct head_read {
  bool failed = false;    ///< by the time limit, too
  bool late = false;      ///< the time limit has passed
  bool open = true;       ///< the connection was not closed meanwhile, as when it made room for another
  std::size_t bytes = 0;  ///< of the head so far
};

/// ok: go on. A client that is late is told, but one that has sent nothing has asked nothing.
[[nodiscard]] constexpr read_result judge_head_read(const head_read& read) noexcept {
  if (read.late && read.open && read.bytes > 0) return read_result::too_slow;
  return read.failed ? read_result::closed : read_result::ok;
}

/// The reading of a whole body.
struct body_read {
  bool failed = false;
  bool late = false;
  bool open = true;
  bool malformed = false;  ///< it failed because the bytes are not HTTP, or too many
};

[[nodiscard]] constexpr read_result judge_body_read(const body_read& read) noexcept {
  if (!read.failed) return read_result::ok;
  if (read.late && read.open) return read_result::too_slow;
  return read.malformed ? read_result::invalid : read_result::closed;
}

/// What becomes of the body of a request that is refused by its head alone.
enum class unwanted_body {
  none,  ///< there is no body
  skip,  ///< all of it has arrived: dropped, and the next request follows it
  close  ///< more is on its way, where the next request could not be told from it
};

/// `length`: Content-Length, when given; `buffered`: bytes that came behind the head; `done`: the head says
/// that there is no body.
[[nodiscard]] constexpr unwanted_body judge_unwanted_body(std::optional<std::uint64_t> length,
                                                          std::size_t buffered, bool done) noexcept {
  if (length && *length <= buffered) return unwanted_body::skip;
  return done ? unwanted_body::none : unwanted_body::close;
}

}  // namespace orcd::net
