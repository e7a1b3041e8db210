#include "net/jobs/write.hpp"

#include <boost/asio/write.hpp>
#include <utility>

#include "net/http/keep_alive.hpp"

namespace orcd::net {

asio::awaitable<bool> write_bytes(service& s, connection& c, std::string bytes) {
  // A write begins only when the one before was taken: the client still reads.
  if (c.phase == connection_phase::unread) c.enter(connection_phase::unread);
  c.stream.expires_after(s.config.connections.write_timeout);
  const auto [ec, n] = co_await asio::async_write(c.stream, asio::buffer(bytes), as_tuple_token);
  static_cast<void>(n);
  co_return !ec;
}

asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response) {
  s.count_response(response.status);
  const answer_begin begin{request.keep_alive, s.draining()};
  const bool keep = keeps_alive(reply_end{begin, response.close, c.tier == connection_tier::reserved});
  std::string bytes = render_reply(response, request, keep);
  const bool written = co_await write_bytes(s, c, std::move(bytes));
  co_return written&& keep;
}

}  // namespace orcd::net
