// Whether a connection may serve another request: decided before an answer, for its head, and after it. Pure.
// Private to net/.
#pragma once

namespace orcd::net {

/// What is known when an answer begins.
struct answer_begin {
  bool wanted = true;     ///< the request asks for it (Connection, HTTP version)
  bool draining = false;  ///< clients should turn to another worker
  bool streams = false;   ///< an event stream, whose end HTTP/1.0 marks by closing
  bool http_1_0 = false;
};

/// What the head of an answer may promise.
[[nodiscard]] constexpr bool may_keep_alive(const answer_begin& at) noexcept {
  return at.wanted && !at.draining && !(at.streams && at.http_1_0);
}

/// What is known of a reply that is written at once.
struct reply_end {
  answer_begin begin{};
  bool reply_closes = false;  ///< reply::close
  bool reserved = false;      ///< a connection beyond the limit, which is for one probe
};

[[nodiscard]] constexpr bool keeps_alive(const reply_end& at) noexcept {
  return may_keep_alive(at.begin) && !at.reply_closes && !at.reserved;
}

/// The one reply of a request whose jobs are over.
struct final_reply_head {
  bool promised = false;      ///< may_keep_alive() when the jobs began
  bool reply_closes = false;  ///< reply::close
  bool jobs_over = true;  ///< false: a job has not confirmed its end, and the connection is closed at once
};

[[nodiscard]] constexpr bool may_keep_alive(const final_reply_head& at) noexcept {
  return at.promised && !at.reply_closes && at.jobs_over;
}

/// What is known when the answer of jobs was written, or could not be. A drain that has begun meanwhile
/// breaks no promise: a proxy may be sending the next request already, which is told of the drain.
struct jobs_end {
  bool promised = false;   ///< by the head, or by the head of the one reply
  bool streams = false;    ///< a stream's head has promised nothing about how it ends
  bool completed = false;  ///< every job ran to its end
  bool client_gone = false;
  bool half_closed = false;  ///< the client sends no more requests
  bool stopping = false;     ///< the server ends its connections
};

[[nodiscard]] constexpr bool keeps_alive(const jobs_end& at) noexcept {
  const bool ended_well = !at.streams || at.completed;
  return at.promised && ended_well && !at.client_gone && !at.half_closed && !at.stopping;
}

}  // namespace orcd::net
