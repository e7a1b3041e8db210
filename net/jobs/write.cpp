#include "net/jobs/write.hpp"

#include <boost/asio/write.hpp>
#include <utility>

#include "net/http/keep_alive.hpp"
#include "net/traces/trace_notes.hpp"

namespace orcd::net {

namespace {

asio::awaitable<bool> send(service& s, connection& c, const std::string& bytes) {
  // A write begins only when the one before was taken: the client still reads.
  if (c.phase == connection_phase::unread) c.enter(connection_phase::unread);
  c.stream.expires_after(s.config.connections.write_timeout);
  const auto [ec, n] = co_await asio::async_write(c.stream, asio::buffer(bytes), as_tuple_token);
  static_cast<void>(n);
  co_return !ec;
}

}  // namespace

asio::awaitable<bool> write_bytes(service& s, connection& c, std::string bytes, std::uint32_t flags) {
  if (c.record) c.record->output(bytes, flags);
  co_return co_await send(s, c, bytes);
}

asio::awaitable<bool> write_recovered(service& s, connection& c) {
  co_return co_await send(s, c, c.recovered->unsent);
}

asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response) {
  s.count_response(response.status);
  note_answer(c, response);
  const answer_begin begin{request.keep_alive, s.draining()};
  const bool keep = keeps_alive(reply_end{begin, response.close, c.tier == connection_tier::reserved});
  std::string bytes = render_reply(response, request, keep);
  // A stream that has begun cannot become another answer.
  if (c.recovered && (c.recovered->flags & journal_head) != 0) co_return false;
  const std::uint32_t flags = journal_answered | (keep ? journal_keep_alive : 0U);
  const bool written = co_await write_bytes(s, c, std::move(bytes), flags);
  co_return written&& keep;
}

}  // namespace orcd::net
