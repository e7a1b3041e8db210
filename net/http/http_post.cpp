#include "net/http/http_post.hpp"

#include <algorithm>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

namespace orcd::net {
namespace {

namespace http = beast::http;
namespace ssl = asio::ssl;

/// Room for the head of an answer, and for a body that comes with it.
constexpr std::size_t input_bytes_max = 64U * 1024U;

using answer_parser = http::response_parser<http::string_body>;

void take_head(const answer_parser& parser, http_answer& out) {
  constexpr std::size_t retry_after_max = 64;
  const std::string_view retry_after = parser.get()[http::field::retry_after];
  if (retry_after.size() <= retry_after_max) out.retry_after = retry_after;
  out.status = parser.get().result_int();
  out.failure = "its body did not come in time";
}

/// Sends the request and reads the answer. The status counts from the head on, whatever becomes of the body.
template <class Stream>
asio::awaitable<void> exchange(Stream& stream, const std::string& request, std::size_t body_bytes_max,
                               http_answer& out) {
  const auto [unsent, n] = co_await asio::async_write(stream, asio::buffer(request), as_tuple_token);
  static_cast<void>(n);
  if (unsent) {
    out.failure = "sending failed: " + unsent.message();
    co_return;
  }
  beast::flat_buffer input(input_bytes_max);
  answer_parser parser;
  parser.body_limit(body_bytes_max);
  // The body of an answer whose head alone is wanted may have any length: it is not looked at.
  if (body_bytes_max == 0) parser.skip(true);
  const auto [no_head, m] = co_await http::async_read_header(stream, input, parser, as_tuple_token);
  static_cast<void>(m);
  if (no_head) {
    out.failure = "reading the answer failed: " + no_head.message();
    co_return;
  }
  take_head(parser, out);
  const auto [no_body, k] = co_await http::async_read(stream, input, parser, as_tuple_token);
  static_cast<void>(k);
  out.failure = no_body ? "reading its body failed: " + no_body.message() : std::string();
  if (!no_body) out.body = std::move(parser.get().body());
}

asio::awaitable<void> exchange_tls(beast::tcp_stream tcp, const http_url& to, const std::string& request,
                                   std::size_t body_bytes_max, http_answer& out) {
  ssl::context context(ssl::context::tls_client);
  error_code ec;
  context.set_default_verify_paths(ec);
  if (!ec) context.set_verify_mode(ssl::verify_peer, ec);
  beast::ssl_stream<beast::tcp_stream> stream(std::move(tcp), context);
  if (!ec) stream.set_verify_callback(ssl::host_name_verification(to.host), ec);
  SSL_set_min_proto_version(stream.native_handle(), TLS1_2_VERSION);
  error_code not_an_address;
  asio::ip::make_address(to.host, not_an_address);
  // Server name indication is for names; an address must not be sent (RFC 6066).
  const bool named =
      !not_an_address || SSL_set_tlsext_host_name(stream.native_handle(), to.host.c_str()) == 1;
  if (ec || !named) {
    out.failure = "TLS could not be set up";
    co_return;
  }
  const auto [shaken] = co_await stream.async_handshake(ssl::stream_base::client, as_tuple_token);
  if (shaken) {
    out.failure = "the TLS handshake failed: " + shaken.message();
    co_return;
  }
  co_await exchange(stream, request, body_bytes_max, out);
}

/// Connects; what failed, or nothing. An address needs no lookup, which cannot be given up.
asio::awaitable<std::string> connect(beast::tcp_stream& stream, const http_url& to) {
  error_code is_a_name;
  const auto literal = asio::ip::make_address(to.host, is_a_name);
  if (!is_a_name) {
    const tcp::endpoint endpoint(literal, static_cast<std::uint16_t>(std::stoul(to.port)));
    const auto [failed] = co_await stream.async_connect(endpoint, as_tuple_token);
    co_return failed ? "connecting failed: " + failed.message() : std::string();
  }
  tcp::resolver resolver(stream.get_executor());
  const auto [unknown, endpoints] = co_await resolver.async_resolve(to.host, to.port, as_tuple_token);
  if (unknown) co_return "the host name was not resolved: " + unknown.message();
  const auto [failed, endpoint] = co_await stream.async_connect(endpoints, as_tuple_token);
  static_cast<void>(endpoint);
  co_return failed ? "connecting failed: " + failed.message() : std::string();
}

}  // namespace

std::optional<std::chrono::seconds> http_answer::asked_wait() const noexcept {
  constexpr std::uint64_t seconds_max = 3'600;
  std::uint64_t seconds = 0;
  const char* const end = retry_after.data() + retry_after.size();
  const auto parsed = std::from_chars(retry_after.data(), end, seconds);
  if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, seconds_max));
}

std::string make_post(const http_url& to, std::string_view target, std::string_view body) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: " + to.authority +
         "\r\nUser-Agent: worker-orcd\r\nContent-Type: application/json\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

asio::awaitable<void> post_once(const http_url& to, const std::string& request, std::size_t body_bytes_max,
                                http_answer& out) {
  beast::tcp_stream stream(co_await asio::this_coro::executor);
  std::string refused = co_await connect(stream, to);
  if (!refused.empty()) {
    out.failure = std::move(refused);
    co_return;
  }
  if (to.tls) {
    co_await exchange_tls(std::move(stream), to, request, body_bytes_max, out);
  } else {
    co_await exchange(stream, request, body_bytes_max, out);
  }
}

asio::awaitable<void> wait_until(std::chrono::steady_clock::time_point end) {
  asio::steady_timer timer(co_await asio::this_coro::executor, end);
  const auto [ec] = co_await timer.async_wait(as_tuple_token);
  static_cast<void>(ec);
}

}  // namespace orcd::net
