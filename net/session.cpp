#include "net/session.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "net/cors.hpp"
#include "net/handlers.hpp"
#include "net/read_limit.hpp"
#include "net/request_fields.hpp"
#include "net/request_head.hpp"
#include "net/routes.hpp"

namespace orcd::net {
namespace {

namespace http = beast::http;
using std::chrono::steady_clock;
using request_parser = http::request_parser<http::string_body>;

/// What became of an attempt to read: a request is there, the client is gone, or a refusal is due.
enum class read_result { ok, closed, refused };

head_limits limits_of(const connection_limits& limits) {
  head_limits out;
  out.bytes_max = limits.header_bytes_max;
  out.body_bytes_max = limits.body_bytes_max;
  return out;
}

std::string_view received(const connection& c) {
  const auto data = c.input.data();
  return {static_cast<const char*>(data.data()), data.size()};
}

head_problem too_slow(const char* what, std::chrono::seconds limit) {
  return {408,
          std::string(what) + " did not arrive within the limit of " + std::to_string(limit.count()) + " s"};
}

/// Reads until a whole head has arrived. The time limit runs from the first byte and is not renewed by
/// the next, so that a client that sends slowly is refused; one that sent nothing is just closed.
asio::awaitable<read_result> read_head(service& s, connection& c, head_scanner& scanner, bool first_request,
                                       head_problem& problem) {
  const auto& limits = s.config.connections;
  read_limit time(c.stream);
  bool begun = first_request || c.input.size() > 0;
  if (begun) time.start(limits.header_timeout);
  if (!begun) c.stream.expires_after(limits.idle_timeout);
  for (;;) {
    const auto state = scanner.scan(received(c));
    if (state == head_scanner::state::complete) co_return read_result::ok;
    if (state == head_scanner::state::refused) {
      problem = scanner.problem();
      co_return read_result::refused;
    }
    const auto [ec, n] = co_await c.stream.async_read_some(c.input.prepare(4'096), as_tuple_token);
    if (time.passed() && c.input.size() > 0 && c.stream.socket().is_open()) {
      problem = too_slow("the request head", limits.header_timeout);
      co_return read_result::refused;
    }
    if (ec) co_return read_result::closed;
    c.input.commit(n);
    if (!begun) time.start(limits.header_timeout);
    begun = true;
  }
}

/// The refusal that fits a parse error of the body or of what the scan of the head let through.
head_problem problem_of(error_code ec, const connection_limits& limits) {
  if (ec == http::error::body_limit || ec == http::error::buffer_overflow) {
    return {413, "the body is longer than the limit of " + std::to_string(limits.body_bytes_max) + " bytes"};
  }
  return {400, "the request is not valid HTTP"};
}

bool is_parse_error(error_code ec) {
  return ec.category() == http::make_error_code(http::error::end_of_stream).category() &&
         ec != http::error::end_of_stream && ec != http::error::partial_message;
}

/// Reads the body; the head must have been parsed.
asio::awaitable<read_result> read_body(service& s, connection& c, request_parser& parser,
                                       bool expects_continue, head_problem& problem) {
  if (parser.is_done()) co_return read_result::ok;
  if (expects_continue && c.input.size() == 0) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await write_bytes(s, c, std::move(go_on))) co_return read_result::closed;
  }
  read_limit time(c.stream);
  time.start(s.config.connections.body_timeout);
  const auto [ec, n] = co_await http::async_read(c.stream, c.input, parser, as_tuple_token);
  static_cast<void>(n);
  if (!ec) co_return read_result::ok;
  if (time.passed() && c.stream.socket().is_open()) {
    problem = too_slow("the body", s.config.connections.body_timeout);
    co_return read_result::refused;
  }
  if (!is_parse_error(ec)) co_return read_result::closed;
  problem = problem_of(ec, s.config.connections);
  co_return read_result::refused;
}

http_request take_request(const service& s, request_parser& parser, engine::steady_time received_at) {
  auto message = parser.release();
  http_request request;
  request.method = message.method_string();
  request.target = message.target();
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  request.received_at = received_at;
  const std::string_view id = message["X-Request-Id"];
  request.request_id = is_request_id(id) ? std::string(id) : make_request_id();
  const auto deadline = message.find("X-Deadline");
  if (deadline != message.end()) request.deadline = std::string(deadline->value());
  const auto imc_id = message.find("KRONK_IMC_ID");
  if (imc_id != message.end()) request.imc_id = std::string(imc_id->value());
  request.authorization = message[http::field::authorization];
  request.if_none_match = message[http::field::if_none_match];
  request.allowed_origin = allowed_origin(s.config.cors_origins, message[http::field::origin]);
  request.body = std::move(message.body());
  return request;
}

/// The answer to something that is no request: there is no id to echo and nothing to keep alive.
asio::awaitable<void> write_refusal(service& s, connection& c, head_problem problem) {
  http_request nothing;
  nothing.request_id = make_request_id();
  nothing.keep_alive = false;
  reply refusal = make_protocol_reply(problem.status, problem.message);
  co_await write_reply(s, c, nothing, std::move(refusal));
}

engine::error no_key() {
  return {engine::errc::unauthorized, "this worker needs an API key: Authorization: Bearer KEY"};
}

asio::awaitable<bool> route_request(service& s, connection& c, const http_request& request) {
  auto route = find_route(request.method, request.target, s.config.page);
  if (auto* refused = std::get_if<reply>(&route)) {
    co_return co_await write_reply(s, c, request, std::move(*refused));
  }
  const endpoint target = std::get<endpoint>(route);
  if (needs_key(target) && !s.config.keys.accepts(request.authorization)) {
    reply refusal = make_error_reply(no_key());
    co_return co_await write_reply(s, c, request, std::move(refusal));
  }
  if (target == endpoint::execute) co_return co_await handle_execute(s, c, request);
  if (target == endpoint::chat_completions) {
    co_return co_await handle_completion(s, c, request, completion_kind::chat);
  }
  if (target == endpoint::completions) {
    co_return co_await handle_completion(s, c, request, completion_kind::text);
  }
  if (target == endpoint::embeddings) co_return co_await handle_pooled(s, c, request, task::embed);
  if (target == endpoint::rerank) co_return co_await handle_pooled(s, c, request, task::rank);
  reply response = answer(s, target, request);
  co_return co_await write_reply(s, c, request, std::move(response));
}

/// Serves one request; returns whether another may follow on this connection.
asio::awaitable<bool> serve_request(service& s, connection& c, bool first_request) {
  c.idle = true;
  c.idle_since = steady_clock::now();
  head_scanner scanner(limits_of(s.config.connections));
  head_problem problem;
  auto outcome = co_await read_head(s, c, scanner, first_request, problem);
  c.idle = false;

  const auto received_at = steady_clock::now();
  request_parser parser;
  if (outcome == read_result::ok) {
    parser.body_limit(s.config.connections.body_bytes_max);
    // The scan holds the limit; trailers after a chunked body are held by this one.
    parser.header_limit(static_cast<std::uint32_t>(s.config.connections.header_bytes_max) + 1);
    error_code ec;
    c.input.consume(parser.put(c.input.data(), ec));
    if (ec) {
      problem = problem_of(ec, s.config.connections);
      outcome = read_result::refused;
    } else {
      outcome = co_await read_body(s, c, parser, scanner.expects_continue(), problem);
    }
  }
  if (outcome == read_result::refused) co_await write_refusal(s, c, problem);
  if (outcome != read_result::ok) co_return false;
  const http_request request = take_request(s, parser, received_at);
  co_return co_await route_request(s, c, request);
}

/// Closes so that the client gets what was written: a socket closed with unread input would reset it.
asio::awaitable<void> close_gently(connection& c) {
  error_code ignored;
  c.stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  c.stream.expires_after(std::chrono::seconds(1));
  c.input.consume(c.input.size());
  for (std::size_t discarded = 0; discarded < 4u << 20U;) {
    const auto [ec, n] = co_await c.stream.async_read_some(c.input.prepare(16'384), as_tuple_token);
    if (ec) break;
    discarded += n;
  }
  c.stream.close();
}

/// Keeps the set of connections true to the frames that exist.
class registration {
 public:
  registration(std::shared_ptr<service> s, connection& c) : service_(std::move(s)), connection_(c) {
    service_->connections.add(connection_);
  }
  ~registration() { service_->connections.remove(connection_); }
  registration(const registration&) = delete;
  registration& operator=(const registration&) = delete;

 private:
  std::shared_ptr<service> service_;
  connection& connection_;
};

}  // namespace

asio::awaitable<bool> write_bytes(service& s, connection& c, std::string bytes) {
  c.stream.expires_after(s.config.connections.write_timeout);
  const auto [ec, n] = co_await asio::async_write(c.stream, asio::buffer(bytes), as_tuple_token);
  static_cast<void>(n);
  co_return !ec;
}

asio::awaitable<bool> write_reply(service& s, connection& c, const http_request& request, reply response) {
  s.count_response(response.status);
  const bool keep = request.keep_alive && !response.close && !s.draining();
  std::string bytes = render_reply(response, request, keep);
  const bool written = co_await write_bytes(s, c, std::move(bytes));
  co_return written&& keep;
}

asio::awaitable<void> run_session(std::shared_ptr<service> s, tcp::socket socket) {
  connection c(std::move(socket), s->config.connections);
  const registration registered(s, c);
  bool first = true;
  while (c.stream.socket().is_open() && co_await serve_request(*s, c, first)) first = false;
  if (c.stream.socket().is_open()) co_await close_gently(c);
}

}  // namespace orcd::net
