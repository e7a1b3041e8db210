#include "net/server/session.hpp"

#include <array>
#include <cstdio>
#include <optional>
#include <utility>
#include <variant>

#include "net/anthropic/messages.hpp"
#include "net/execute/execute.hpp"
#include "net/http/cors.hpp"
#include "net/http/read_input.hpp"
#include "net/http/read_limit.hpp"
#include "net/http/request_head.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/write.hpp"
#include "net/json/request_fields.hpp"
#include "net/llama/llama_completion.hpp"
#include "net/ollama/ollama.hpp"
#include "net/openai/completions.hpp"
#include "net/pooled/pooled.hpp"
#include "net/responses/responses.hpp"
#include "net/responses/stored_responses.hpp"
#include "net/server/adapter_endpoints.hpp"
#include "net/server/admitted.hpp"
#include "net/server/handlers.hpp"
#include "net/server/judge_head.hpp"
#include "net/server/logged_request.hpp"
#include "net/server/read_decisions.hpp"
#include "net/server/traced_request.hpp"

namespace orcd::net {
namespace {

namespace http = beast::http;
using std::chrono::steady_clock;

head_limits limits_of(const service& s, const connection& c) {
  head_limits out;
  out.bytes_max = s.config.connections.header_bytes_max;
  out.body_bytes_max = body_limit_of(s, c);
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
  time.start(begun ? limits.header_timeout : limits.idle_timeout);
  for (;;) {
    const auto state = scanner.scan(received(c));
    if (state == head_scanner::state::complete) co_return read_result::ok;
    if (state == head_scanner::state::refused) {
      problem = scanner.problem();
      co_return read_result::invalid;
    }
    const auto got = co_await read_input(c, 4'096);
    head_read read{.failed = got.failed.failed(), .open = c.stream.socket().is_open()};
    // Bytes that end the silence between two requests are never late, and there is no head before them.
    read.late = time.passed() && (begun || got.bytes == 0);
    read.bytes = begun || got.bytes > 0 ? c.input.size() : 0;
    const auto judged = judge_head_read(read);
    if (judged == read_result::too_slow) problem = too_slow("the request head", limits.header_timeout);
    if (judged != read_result::ok) co_return judged;
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

/// Reads more of a body, behind what is in the buffer.
asio::awaitable<error_code> read_part(service& s, connection& c, request_parser& parser,
                                      const read_limit& time) {
  // What the buffer has room for: it grows no more than it must, because a connection keeps it.
  constexpr std::size_t part_min = 512;
  const std::size_t spare = std::max(part_min, c.input.capacity() - c.input.size());
  const std::size_t room = std::min(spare, c.input.max_size() - c.input.size());
  if (room == 0) co_return http::make_error_code(http::error::buffer_overflow);
  if (!has_replay(c)) {
    if (time.passed()) co_return asio::error::timed_out;
    const auto [ended] = co_await c.stream.socket().async_wait(tcp::socket::wait_read, as_tuple_token);
    if (ended) co_return ended;
    co_await s.body_limiter->pass(c.stream.get_executor());
    if (time.passed() && readable_bytes(c.stream.socket()) == 0) co_return asio::error::timed_out;
  }
  const auto got = co_await read_input(c, room);
  error_code ec = got.failed;
  if (ec == asio::error::eof) parser.put_eof(ec = {});
  co_return ec;
}

/// Reads the rest of the body and notes how much came: a body that comes too slowly may be closed for another
/// connection.
asio::awaitable<error_code> read_parts(service& s, connection& c, request_parser& parser,
                                       const read_limit& time) {
  error_code ec;
  bool more = c.input.size() == 0;  // bytes that came with the head are in the buffer already
  while (!parser.is_done()) {
    if (more) ec = co_await read_part(s, c, parser, time);
    if (ec || parser.is_done()) break;
    const std::size_t n = parser.put(c.input.data(), ec);
    c.input.consume(n);
    c.note_body_bytes(n);
    more = ec == http::error::need_more || c.input.size() == 0;
    if (ec == http::error::need_more) ec = {};
    if (ec) break;
  }
  co_return ec;
}

/// Of a request that a dead engine began: it had asked for the body, or some of it had come.
bool has_body_begun(const connection& c) {
  if (!c.recovered) return false;
  return (c.recovered->flags & journal_interim) != 0 || c.recovered->request_bytes > 0 || has_replay(c);
}

/// Reads the body; the head must have been parsed.
asio::awaitable<read_result> read_body(service& s, connection& c, request_parser& parser,
                                       bool expects_continue, head_problem& problem) {
  if (parser.is_done()) co_return read_result::ok;
  if (expects_continue && c.input.size() == 0 && !has_body_begun(c)) {
    std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await write_bytes(s, c, std::move(go_on), journal_interim)) co_return read_result::closed;
  }
  read_limit time(c.stream);
  time.start(s.config.connections.body_timeout);
  parser.eager(true);
  const error_code ec = co_await read_parts(s, c, parser, time);
  const body_read read{ec.failed(), time.passed(), c.stream.socket().is_open(), is_parse_error(ec)};
  const auto judged = judge_body_read(read);
  if (judged == read_result::too_slow) problem = too_slow("the body", s.config.connections.body_timeout);
  if (judged == read_result::invalid) problem = problem_of(ec, s.config.connections);
  co_return judged;
}

/// The origin of a request whose head is whole: a new one, or that of the engine that began with it.
request_origin origin_of(const connection& c) {
  if (c.recovered && c.recovered->origin.received_steady_ns != 0) {
    request_origin origin = c.recovered->origin;
    // One that was not whole yet is answered by this engine as any other.
    if (c.recovered->request_bytes == 0) origin.maker = c.maker;
    return origin;
  }
  const auto ns = [](auto time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  };
  return {
      {random_bits(), random_bits()}, ns(std::chrono::system_clock::now()), ns(steady_clock::now()), c.maker};
}

/// The request without its body.
http_request take_head(const service& s, connection& c, const request_parser& parser) {
  const auto& message = parser.get();
  http_request request;
  const request_origin origin = origin_of(c);
  if (c.record) c.record->set_origin(origin);
  request.nonce = digits_of(origin.entropy);
  request.received_at = engine::steady_time(std::chrono::nanoseconds(origin.received_steady_ns));
  request.received_wall =
      std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::nanoseconds(origin.received_wall_ns)));
  request.method = message.method_string();
  request.target = message.target();
  request.words = words_of(request.target);
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  const std::string_view id = message["X-Request-Id"];
  request.request_id = is_request_id(id) ? std::string(id) : id_series(request.nonce + "-request").next();
  const auto deadline = message.find("X-Deadline");
  if (deadline != message.end()) request.deadline = std::string(deadline->value());
  const auto imc_id = message.find("KRONK_IMC_ID");
  if (imc_id != message.end()) request.imc_id = std::string(imc_id->value());
  const auto last_event_id = message.find("Last-Event-ID");
  if (last_event_id != message.end()) request.last_event_id = std::string(last_event_id->value());
  if (c.recovered && c.recovered->request_bytes > 0) request.fingerprint = c.fingerprint;
  request.if_none_match = message[http::field::if_none_match];
  request.allowed_origin = allowed_origin(s.config.cors_origins, message[http::field::origin]);
  return request;
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

/// What is in the buffer, or will be read again, belongs to the next request.
void note_end_of_request(connection& c, std::uint32_t flags = 0) {
  if (!c.record) return;
  const std::size_t unread = has_replay(c) ? c.recovered->input.size() - c.replayed : 0;
  c.record->end_of_request(c.input.size() + unread, flags);
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
  note_end_of_request(c);
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
  if (pooled_task_of(target) != model_task::generate) co_return co_await handle_pooled(s, c, request, target);
  if (target == endpoint::messages) co_return co_await handle_messages(s, c, request);
  if (is_adapter_endpoint(target)) co_return co_await handle_adapters(s, c, request, target);
  if (target == endpoint::count_tokens) co_return co_await handle_count_tokens(s, c, request);
  if (is_ollama(target)) co_return co_await handle_ollama(s, c, request, target);
  if (target == endpoint::chat_input_tokens) co_return co_await handle_chat_input_tokens(s, c, request);
  if (target == endpoint::response_input_tokens) {
    co_return co_await handle_response_input_tokens(s, c, request);
  }
  co_return co_await handle_plain(s, c, request, target);
}

/// Gives the parser the head that has arrived, and no byte after it.
error_code parse_head(const service& s, connection& c, request_parser& parser) {
  parser.body_limit(body_limit_of(s, c));
  // The scan has enforced the limit on the head; this one bounds the trailers after a chunked body.
  parser.header_limit(static_cast<std::uint32_t>(s.config.connections.header_bytes_max) + 1);
  error_code ec;
  c.input.consume(parser.put(c.input.data(), ec));
  return ec;
}

/// Serves one request; returns whether another may follow on this connection.
asio::awaitable<bool> serve_request(service& s, connection& c, bool first_request) {
  c.enter(connection_phase::head);
  if (c.record && !c.recovered) c.record->begin_request(received(c));
  head_scanner scanner(limits_of(s, c));
  head_problem problem;
  auto outcome = co_await read_head(s, c, scanner, first_request, problem);
  const api_words words = words_of(target_in(received(c)));
  if (is_refusal(outcome)) co_await write_refusal(s, c, problem, words);
  if (outcome != read_result::ok) co_return false;

  c.input.consume(scanner.skipped());
  request_parser parser;
  error_code ec = parse_head(s, c, parser);
  if (ec) {
    problem = problem_of(ec, s.config.connections);
    co_await write_refusal(s, c, problem, words);
    co_return false;
  }
  http_request request = take_head(s, c, parser);
  const traced_request traced(s, c, request, parser.get());
  const logged_request logged(s, c, request, parser.get()["X-Forwarded-For"]);
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
  note_end_of_request(c, journal_admitted);
  // Whatever it is in this request that ends engines, it is not tried once more.
  if (c.refusal && (c.recovered->flags & journal_head) == 0) {
    reply refusal = make_error_reply(*c.refusal);
    refusal.close = true;
    co_return co_await write_reply(s, c, request, std::move(refusal));
  }
  request.body = std::move(parser.get().body());
  co_return co_await handle_request(s, c, request, std::get<endpoint>(judged));
}

/// Closes so that the client gets what was written: closing a socket with unread input would send a reset.
asio::awaitable<void> close_gently(connection& c) {
  c.enter(connection_phase::closing);
  if (c.record) c.record->closing();
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

/// Called when everything that was made after it is gone.
struct closing_call {
  std::function<void()> closed;
  ~closing_call() {
    if (closed) closed();
  }
};

/// A close alone sends no FIN while another process has the socket, too: it is shut down first, however the
/// session ends.
class closed_in_order {
 public:
  explicit closed_in_order(connection& c) : connection_(c) {}
  ~closed_in_order() {
    if (connection_.record && !connection_.record->is_left()) connection_.close();
  }
  closed_in_order(const closed_in_order&) = delete;
  closed_in_order& operator=(const closed_in_order&) = delete;

 private:
  connection& connection_;
};

/// The request that a dead engine began with is over. What it had received behind it is the next one's; false
/// where that is more than a client may send ahead.
bool leave_recovered(connection& c) {
  c.refusal.reset();
  c.alone = c.entered = false;
  if (!c.recovered) return true;
  const std::size_t rest = c.recovered->input.size() - c.replayed;
  if (rest > c.input.max_size() - c.input.size()) return false;
  c.input.commit(asio::buffer_copy(c.input.prepare(rest), asio::buffer(c.recovered->input) + c.replayed));
  c.recovered.reset();
  return true;
}

/// Sends what a dead engine had made and the socket had not taken. Whether the connection goes on.
asio::awaitable<bool> finish_write(service& s, connection& c) {
  const bool answered = (c.recovered->flags & journal_answered) != 0;
  c.served = c.recovered->served;  // else it would have as little time as one that has never asked
  c.enter(answered ? connection_phase::unread : connection_phase::request);
  if (!c.recovered->unsent.empty() && !co_await write_recovered(s, c)) co_return false;
  const auto flags = c.recovered->flags;
  if ((flags & journal_closing) != 0) co_return false;
  if ((flags & journal_answered) == 0) {
    // Nothing of a request has come: it is as good as any that waits for one.
    if (c.recovered->input.empty()) c.recovered.reset();
    co_return true;
  }
  if ((flags & journal_keep_alive) == 0 || c.recovered->request_bytes == 0) co_return false;
  c.replayed = c.recovered->request_bytes;
  c.served = true;
  co_return leave_recovered(c);
}

}  // namespace

asio::awaitable<void> run_session(std::shared_ptr<service> s, tcp::socket socket, connection_tier tier,
                                  journalled kept) {
  const closing_call told{std::move(kept.closed)};
  connection c(std::move(socket), s->config.connections, tier, std::move(kept));
  const closed_in_order in_order(c);
  const registration registered(s, c);
  bool more = !c.recovered || co_await finish_write(*s, c);
  while (more && c.stream.socket().is_open()) {
    more = co_await serve_request(*s, c, !c.served);
    c.served = c.served || more;
    more = more && leave_recovered(c);
  }
  if (c.stream.socket().is_open()) co_await close_gently(c);
}

}  // namespace orcd::net
