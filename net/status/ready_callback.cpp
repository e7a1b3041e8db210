#include "net/status/ready_callback.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <utility>

#include "net/http/asio.hpp"
#include "net/json/json_text.hpp"
#include "net/status/callback_url.hpp"

namespace orcd::net {
namespace {

namespace http = beast::http;
namespace ssl = asio::ssl;
using engine::errc;
using engine::error;
using engine::result;
using namespace asio::experimental::awaitable_operators;

constexpr std::chrono::seconds delay_max{30};

/// How one attempt ended: an HTTP status, or why there is none.
struct attempt_result {
  unsigned status = 0;
  std::string failure;

  [[nodiscard]] bool accepted() const { return status / 100 == 2; }
  [[nodiscard]] bool refused() const { return status / 100 == 4; }
  [[nodiscard]] std::string shown() const {
    return status > 0 ? "HTTP status " + std::to_string(status) : failure;
  }
};

/// One call from first attempt to `done`.
struct ready_call {
  callback_url url;
  callback_config config;
  std::string request;
};

std::string make_request(const callback_url& url, const ready_message& message) {
  std::string body;
  json_object json(body);
  json.text("worker_id", message.worker_id)
      .text("model_ref", message.model_ref)
      .integer("vram_bytes", message.vram_bytes)
      .text("uri", message.uri);
  json.close();
  return "POST " + url.target + " HTTP/1.1\r\nHost: " + url.authority +
         "\r\nUser-Agent: worker-orcd\r\nContent-Type: application/json\r\nConnection: "
         "close\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// Sends the request and reads the head of the answer.
template <class Stream>
asio::awaitable<void> exchange(Stream& stream, const std::string& request, attempt_result& out) {
  const auto [sent, n] = co_await asio::async_write(stream, asio::buffer(request), as_tuple_token);
  static_cast<void>(n);
  if (sent) {
    out.failure = "sending failed: " + sent.message();
    co_return;
  }
  beast::flat_buffer input(64 * 1024);
  http::response_parser<http::empty_body> parser;
  const auto [received, m] = co_await http::async_read_header(stream, input, parser, as_tuple_token);
  static_cast<void>(m);
  if (received) {
    out.failure = "reading the answer failed: " + received.message();
  } else {
    out.status = parser.get().result_int();
  }
}

asio::awaitable<void> exchange_tls(beast::tcp_stream tcp, const ready_call& call, attempt_result& out) {
  ssl::context context(ssl::context::tls_client);
  error_code ec;
  context.set_default_verify_paths(ec);
  if (!ec) context.set_verify_mode(ssl::verify_peer, ec);
  beast::ssl_stream<beast::tcp_stream> stream(std::move(tcp), context);
  if (!ec) stream.set_verify_callback(ssl::host_name_verification(call.url.host), ec);
  SSL_set_min_proto_version(stream.native_handle(), TLS1_2_VERSION);
  error_code not_an_address;
  asio::ip::make_address(call.url.host, not_an_address);
  // Server name indication is for names; an address must not be sent (RFC 6066).
  const bool named =
      !not_an_address || SSL_set_tlsext_host_name(stream.native_handle(), call.url.host.c_str()) == 1;
  if (ec || !named) {
    out.failure = "TLS could not be set up";
    co_return;
  }
  const auto [shaken] = co_await stream.async_handshake(ssl::stream_base::client, as_tuple_token);
  if (shaken) {
    out.failure = "the TLS handshake failed: " + shaken.message();
    co_return;
  }
  co_await exchange(stream, call.request, out);
}

asio::awaitable<void> attempt(const ready_call& call, attempt_result& out) {
  tcp::resolver resolver(co_await asio::this_coro::executor);
  const auto [resolved, endpoints] =
      co_await resolver.async_resolve(call.url.host, call.url.port, as_tuple_token);
  if (resolved) {
    out.failure = "the host name was not resolved: " + resolved.message();
    co_return;
  }
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  const auto [connected, endpoint] = co_await stream.async_connect(endpoints, as_tuple_token);
  static_cast<void>(endpoint);
  if (connected) {
    out.failure = "connecting failed: " + connected.message();
    co_return;
  }
  if (call.url.tls) {
    co_await exchange_tls(std::move(stream), call, out);
  } else {
    co_await exchange(stream, call.request, out);
  }
}

asio::awaitable<void> sleep_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  const auto [ec] = co_await timer.async_wait(as_tuple_token);
  static_cast<void>(ec);
}

asio::awaitable<result<void>> call_until_accepted(ready_call call) {
  auto delay = call.config.first_delay;
  std::string last;
  const unsigned attempts = std::max(call.config.attempts, 1U);
  unsigned made = 0;
  while (made < attempts) {
    if (made > 0) {
      co_await sleep_for(delay);
      delay = std::min<std::chrono::milliseconds>(delay * 2, delay_max);
    }
    ++made;
    attempt_result outcome;
    outcome.failure = "no answer within " + std::to_string(call.config.attempt_timeout.count()) + " ms";
    co_await (attempt(call, outcome) || sleep_for(call.config.attempt_timeout));
    if (outcome.accepted()) co_return result<void>();
    last = outcome.shown();
    if (outcome.refused()) break;
  }
  error failure(errc::worker_start_failed, "the ready callback to " + call.url.shown() + " failed after " +
                                               std::to_string(made) + " of " + std::to_string(attempts) +
                                               " attempts: " + last);
  co_return result<void>(std::move(failure));
}

}  // namespace

result<void> validate_callback_url(const std::string& url) {
  const auto parsed = parse_callback_url(url);
  if (!parsed) return parsed.error();
  return {};
}

void post_ready(asio::io_context& io, callback_config config, ready_message message,
                std::function<void(result<void>)> done) {
  const auto url = parse_callback_url(config.url);
  if (!url) {
    asio::post(io, [done = std::move(done), failure = error(errc::worker_start_failed, url.error().message)] {
      done(failure);
    });
    return;
  }
  ready_call call;
  call.url = *url;
  call.request = make_request(*url, message);
  call.config = std::move(config);
  auto calls = call_until_accepted(std::move(call));
  asio::co_spawn(
      io, std::move(calls), [done = std::move(done)](const std::exception_ptr& thrown, result<void> r) {
        if (!thrown) return done(std::move(r));
        try {
          std::rethrow_exception(thrown);
        } catch (const std::exception& e) {
          done(error(errc::worker_start_failed, std::string("the ready callback failed: ") + e.what()));
        }
      });
}

}  // namespace orcd::net
