#include "net/jobs/background_reply.hpp"

#include <string>
#include <utility>

#include "net/http/keep_alive.hpp"
#include "net/jobs/write.hpp"
#include "net/traces/trace_notes.hpp"

namespace orcd::net {
namespace {

using engine::result;

/// A rendered answer, and what was decided for it.
struct sent_reply {
  unsigned status = 0;
  bool keep_alive = false;
  std::string bytes;
};

}  // namespace

asio::awaitable<bool> write_from_background(service& s, connection& c, const http_request& request,
                                            background_plan plan, std::function<reply()> make) {
  const answer_begin begin{request.keep_alive, s.draining()};
  std::function<result<sent_reply>()> work = [request, begin, make = std::move(make)] {
    const reply response = make();
    const bool keep_alive = keeps_alive(reply_end{begin, response.close});
    return result<sent_reply>(
        sent_reply{response.status, keep_alive, render_reply(response, request, keep_alive)});
  };
  auto made =
      co_await run_in_background<sent_reply>(s, c, request.owner.tenant, std::move(plan), std::move(work));
  if (!made) {
    reply refusal = make_error_reply(made.error());
    co_return co_await write_reply(s, c, request, std::move(refusal));
  }
  s.count_response(made->status);
  note_answer(c, made->status);
  std::string bytes = std::move(made->bytes);
  const bool written = co_await write_bytes(s, c, std::move(bytes));
  co_return written && made->keep_alive && !s.stopping;
}

}  // namespace orcd::net
