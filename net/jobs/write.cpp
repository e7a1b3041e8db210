#include "net/jobs/write.hpp"

#include <boost/asio/write.hpp>
#include <utility>

#include "net/http/keep_alive.hpp"
#include "net/http/routes.hpp"
#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"
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

namespace {

bool has_begun(const connection& c) {
  return c.recovered && (c.recovered->flags & journal_head) != 0;
}

/// The end of a stream that another engine began and this one refuses, in the form that the stream has.
std::string end_of_stream(const http_request& request, const reply& refusal) {
  std::string message = "the engine is gone, and the one that took over does not answer this request";
  if (refusal.failure) message += ": " + refusal.failure->message;
  // What is no word about the request may pass, such as a queue that is full.
  constexpr unsigned about_the_engine = 500;
  const bool refused = !refusal.failure || refusal.status < about_the_engine;
  const engine::error why =
      refused ? engine::error{engine::errc::engine_changed, std::move(message)} : *refusal.failure;
  const auto route = find_route(request.method, request.target);
  const auto* const target = std::get_if<endpoint>(&route);
  std::string out;
  if (target != nullptr && *target == endpoint::execute) {
    append_error(out, why);
  } else if (request.words == api_words::anthropic) {
    append_event(out, "error", anthropic_error_body(why, http_status(why.code), {}));
  } else if (request.words == api_words::ollama) {
    out = ollama_error_body(why) + "\n";
  } else if (target != nullptr && *target == endpoint::responses) {
    std::string data;
    json_object json(data);
    json.text("type", "error").text("code", engine::code_name(why.code)).text("message", why.message);
    json.null("param");
    json.close();
    append_event(out, "error", data);
  } else {
    append_error_object(out, why);
  }
  return request.http_1_0 ? out : chunk_of(out, true);
}

}  // namespace

asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response) {
  // A stream that has begun cannot become another answer.
  if (has_begun(c)) {
    std::string end = end_of_stream(request, response);
    co_await write_bytes(s, c, std::move(end), journal_answered);
    co_return false;
  }
  s.count_response(response.status);
  note_answer(c, response);
  const answer_begin begin{request.keep_alive, s.draining()};
  const bool keep = keeps_alive(reply_end{begin, response.close, c.tier == connection_tier::reserved});
  std::string bytes = render_reply(response, request, keep);
  const std::uint32_t flags = journal_answered | (keep ? journal_keep_alive : 0U);
  const bool written = co_await write_bytes(s, c, std::move(bytes), flags);
  co_return written&& keep;
}

}  // namespace orcd::net
