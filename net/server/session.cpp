#include "net/server/session.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "net/anthropic/messages.hpp"
#include "net/execute/execute.hpp"
#include "net/http/cors.hpp"
#include "net/http/read_limit.hpp"
#include "net/http/request_head.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/job_narration.hpp"
#include "net/jobs/write.hpp"
#include "net/json/request_fields.hpp"
#include "net/llama/llama_completion.hpp"
#include "net/openai/completions.hpp"
#include "net/pooled/pooled.hpp"
#include "net/responses/responses.hpp"
#include "net/responses/stored_responses.hpp"
#include "net/server/handlers.hpp"
#include "net/server/read_decisions.hpp"

namespace orcd::net {
namespace {

namespace http = beast::http;
using std::chrono::steady_clock;
using request_parser = http::request_parser<http::string_body>;

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

/// Reads until a whole head has arrived. The time limit runs from the first byte and later bytes do not renew
/// it, so that a client that sends slowly is refused; one that has sent nothing is just closed.
asio::awaitable<read_result> read_head(service& s, connection& c, head_scanner& scanner, bool first_request,
                                       head_problem& problem) {
  const auto& limits = s.config.connections;
  read_limit time(c.stream);
  // An empty line that a client has sent after a body is no beginning of a request.
  bool begun = first_request || (c.input.size() > 0 && received(c) != "\r\n");
  if (begun) time.start(limits.header_timeout);
  if (!begun) c.stream.expires_after(limits.idle_timeout);
  for (;;) {
    const auto state = scanner.scan(received(c));
    if (state == head_scanner::state::complete) co_return read_result::ok;
    if (state == head_scanner::state::refused) {
      problem = scanner.problem();
      co_return read_result::invalid;
    }
    const auto [ec, n] = co_await c.stream.async_read_some(c.input.prepare(4'096), as_tuple_token);
    const head_read read{ec.failed(), time.passed(), c.stream.socket().is_open(), c.input.size()};
    const auto judged = judge_head_read(read);
    if (judged == read_result::too_slow) problem = too_slow("the request head", limits.header_timeout);
    if (judged != read_result::ok) co_return judged;
    c.input.commit(n);
    if (!begun) time.start(limits.header_timeout);
    begun = true;
  }
}

/// The refusal of a body that is not valid HTTP, or of a head that the scan let through and the parser does
/// not.
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

/// Reads the rest of the body and notes how much came: a body that comes too slowly may be closed for another
/// connection.
asio::awaitable<error_code> read_parts(service& s, connection& c, request_parser& parser) {
  error_code ec;
  while (!parser.is_done()) {
    // Bytes that came with the head are in the buffer already.
    if (c.input.size() == 0) {
      const auto [ended] = co_await c.stream.socket().async_wait(tcp::socket::wait_read, as_tuple_token);
      if (ended) co_return ended;
      co_await s.body_limiter->pass(c.stream.get_executor());
    }
    const auto [failed, n] = co_await http::async_read_some(c.stream, c.input, parser, as_tuple_token);
    c.note_body_bytes(n);
    if (failed) co_return failed;
  }
  co_return ec;
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
  parser.eager(true);
  const error_code ec = co_await read_parts(s, c, parser);
  const body_read read{ec.failed(), time.passed(), c.stream.socket().is_open(), is_parse_error(ec)};
  const auto judged = judge_body_read(read);
  if (judged == read_result::too_slow) problem = too_slow("the body", s.config.connections.body_timeout);
  if (judged == read_result::invalid) problem = problem_of(ec, s.config.connections);
  co_return judged;
}

/// The request without its body.
http_request take_head(const service& s, const request_parser& parser, engine::steady_time received_at) {
  const auto& message = parser.get();
  http_request request;
  request.method = message.method_string();
  request.target = message.target();
  request.words = words_of(request.target);
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  request.received_at = received_at;
  const std::string_view id = message["X-Request-Id"];
  request.request_id = is_request_id(id) ? std::string(id) : make_request_id();
  const auto deadline = message.find("X-Deadline");
  if (deadline != message.end()) request.deadline = std::string(deadline->value());
  const auto imc_id = message.find("KRONK_IMC_ID");
  if (imc_id != message.end()) request.imc_id = std::string(imc_id->value());
  const auto last_event_id = message.find("Last-Event-ID");
  if (last_event_id != message.end()) request.last_event_id = std::string(last_event_id->value());
  request.nonce = make_request_id();
  request.if_none_match = message[http::field::if_none_match];
  request.allowed_origin = allowed_origin(s.config.cors_origins, message[http::field::origin]);
  return request;
}

request_sender sender_of(const connection& c, const request_parser& parser) {
  const auto& message = parser.get();
  request_sender sender;
  sender.method = message.method_string();
  sender.target = message.target();
  sender.host = message[http::field::host];
  sender.origin = message[http::field::origin];
  sender.fetch_site = message["Sec-Fetch-Site"];
  sender.content_type = message[http::field::content_type];
  sender.content_encoding = message[http::field::content_encoding];
  sender.has_body = !parser.is_done();
  sender.on_loopback = c.peer.is_loopback();
  return sender;
}

/// What stands between the first two spaces: the target, if the bytes are those of a request at all.
std::string_view target_in(std::string_view head) {
  const auto begin = head.find(' ');
  if (begin == std::string_view::npos) return {};
  head.remove_prefix(begin + 1);
  return head.substr(0, head.find_first_of(" \r\n"));
}

/// The answer to bytes that are no request: there is no id to echo and nothing to keep alive.
asio::awaitable<void> write_refusal(service& s, connection& c, head_problem problem, api_words words) {
  http_request nothing;
  nothing.request_id = make_request_id();
  nothing.words = words;
  nothing.keep_alive = false;
  reply refusal = make_protocol_reply(problem.status, problem.message);
  co_await write_reply(s, c, nothing, std::move(refusal));
}

engine::error no_key() {
  return {engine::errc::unauthorized,
          "this worker needs an API key: Authorization: Bearer KEY or X-Api-Key: KEY"};
}

engine::error connection_refusal(const service& s, const connection& c) {
  const auto& limits = s.config.connections;
  if (s.connections.exceeds_address_limit(c))
    return too_many_connections(limits.connections_per_address, " from this address");
  return too_many_connections(limits.connections_max);
}

/// Decides by the head alone, before the body is read: the endpoint, or the refusal.
std::variant<endpoint, reply> judge_head(service& s, connection& c, const request_parser& parser,
                                         http_request& request) {
  const auto refuse = [&](const engine::error& why) {
    reply refusal = make_error_reply(why);
    narrate_refusal(s, request, why, refusal.status);
    return refusal;
  };
  const auto sender = sender_of(c, parser);
  if (const auto host = check_host(sender, s.config.hosts); !host) return refuse(host.error());
  auto route = find_route(request.method, request.target, s.config.page);
  const auto* target = std::get_if<endpoint>(&route);
  if ((target == nullptr || !is_probe(*target)) && !s.connections.promote(c)) {
    ++s.metrics.connections_refused;
    return make_error_reply(connection_refusal(s, c));
  }
  if (target == nullptr) return route;
  const auto page = check_page(sender, s.config.hosts, s.config.cors_origins);
  if (!page) return refuse(page.error());
  if (needs_key(*target)) {
    auto owner = s.config.keys.owner_of(parser.get()[http::field::authorization], parser.get()["X-Api-Key"]);
    if (!owner) return refuse(no_key());
    request.owner = std::move(*owner);
  }
  if (*target == endpoint::shutdown) {
    const auto may = check_shutdown(sender, !s.config.keys.empty());
    if (!may) return refuse(may.error());
  }
  if (auto unread = check_body_type(sender)) return std::move(*unread);
  return route;
}

/// Answers a request whose body is not wanted. Another request may follow unless part of that body is still
/// to come.
asio::awaitable<bool> refuse_at_head(service& s, connection& c, const request_parser& parser,
                                     const http_request& request, reply refusal) {
  std::optional<std::uint64_t> length;
  if (const auto given = parser.content_length()) length = *given;
  const auto body = judge_unwanted_body(length, c.input.size(), parser.is_done());
  if (body == unwanted_body::skip) c.input.consume(static_cast<std::size_t>(*length));
  if (body == unwanted_body::close) refusal.close = true;
  co_return co_await write_reply(s, c, request, std::move(refusal));
}

asio::awaitable<bool> handle_request(service& s, connection& c, const http_request& request,
                                     endpoint target) {
  if (target == endpoint::execute) co_return co_await handle_execute(s, c, request);
  if (target == endpoint::chat_completions) {
    co_return co_await handle_completion(s, c, request, completion_kind::chat);
  }
  if (target == endpoint::completions) {
    co_return co_await handle_completion(s, c, request, completion_kind::text);
  }
  if (target == endpoint::responses) co_return co_await handle_response(s, c, request);
  if (target == endpoint::stored_response || target == endpoint::stored_input) {
    co_return co_await handle_stored_response(s, c, request, target);
  }
  if (target == endpoint::llama_completion || target == endpoint::infill) {
    co_return co_await handle_llama_completion(s, c, request, target);
  }
  if (target == endpoint::embeddings) co_return co_await handle_pooled(s, c, request, model_task::embed);
  if (target == endpoint::rerank) co_return co_await handle_pooled(s, c, request, model_task::rank);
  if (target == endpoint::messages) co_return co_await handle_messages(s, c, request);
  if (target == endpoint::count_tokens) co_return co_await handle_count_tokens(s, c, request);
  co_return co_await handle_plain(s, c, request, target);
}

/// Gives the parser the head that has arrived, and no byte after it.
error_code parse_head(const service& s, connection& c, request_parser& parser) {
  parser.body_limit(s.config.connections.body_bytes_max);
  // The scan has enforced the limit on the head; this one bounds the trailers after a chunked body.
  parser.header_limit(static_cast<std::uint32_t>(s.config.connections.header_bytes_max) + 1);
  error_code ec;
  c.input.consume(parser.put(c.input.data(), ec));
  return ec;
}

/// Serves one request; returns whether another may follow on this connection.
asio::awaitable<bool> serve_request(service& s, connection& c, bool first_request) {
  c.enter(connection_phase::head);
  head_scanner scanner(limits_of(s.config.connections));
  head_problem problem;
  auto outcome = co_await read_head(s, c, scanner, first_request, problem);
  const api_words words = words_of(target_in(received(c)));
  if (is_refusal(outcome)) co_await write_refusal(s, c, problem, words);
  if (outcome != read_result::ok) co_return false;

  const auto received_at = steady_clock::now();
  c.input.consume(scanner.skipped());
  request_parser parser;
  error_code ec = parse_head(s, c, parser);
  if (ec) {
    problem = problem_of(ec, s.config.connections);
    co_await write_refusal(s, c, problem, words);
    co_return false;
  }
  http_request request = take_head(s, parser, received_at);
  auto judged = judge_head(s, c, parser, request);
  if (auto* const refusal = std::get_if<reply>(&judged)) {
    c.enter(connection_phase::request);
    co_return co_await refuse_at_head(s, c, parser, request, std::move(*refusal));
  }
  c.enter(connection_phase::body);
  outcome = co_await read_body(s, c, parser, scanner.expects_continue(), problem);
  c.enter(connection_phase::request);
  if (is_refusal(outcome)) co_await write_refusal(s, c, problem, words);
  if (outcome != read_result::ok) co_return false;
  request.body = std::move(parser.get().body());
  co_return co_await handle_request(s, c, request, std::get<endpoint>(judged));
}

/// Closes so that the client gets what was written: closing a socket with unread input would send a reset.
asio::awaitable<void> close_gently(connection& c) {
  c.enter(connection_phase::closing);
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

/// Keeps a connection in the set for as long as its coroutine frame exists.
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

asio::awaitable<void> run_session(std::shared_ptr<service> s, tcp::socket socket, connection_tier tier) {
  connection c(std::move(socket), s->config.connections, tier);
  const registration registered(s, c);
  while (c.stream.socket().is_open() && co_await serve_request(*s, c, !c.served)) c.served = true;
  if (c.stream.socket().is_open()) co_await close_gently(c);
}

}  // namespace orcd::net
