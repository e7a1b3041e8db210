#include "net/failover/system_port.hpp"

#include <boost/beast/http.hpp>
#include <exception>
#include <list>
#include <new>
#include <thread>
#include <utility>

#include "net/http/asio.hpp"
#include "net/http/connection.hpp"
#include "net/http/http_request.hpp"

namespace orcd::net {

namespace {

namespace http = beast::http;
using engine::errc;
using engine::error;
using engine::result;
using std::chrono::milliseconds;

constexpr std::size_t header_bytes_max = 8 * 1024;
constexpr milliseconds exchange_limit{2'000};
constexpr milliseconds scrape_limit{500};
constexpr milliseconds hand_over_limit{20'000};
constexpr milliseconds look_interval{10};

}  // namespace

struct system_port::impl {
  impl(system_config wanted, system_context parts)
      : config(std::move(wanted)), context(std::move(parts)), acceptor(io), look(io), pause(io) {}

  using connection = std::shared_ptr<beast::tcp_stream>;

  result<void> listen();
  void start_accepting();
  asio::awaitable<void> accept_loop();
  void admit(tcp::socket socket);
  asio::awaitable<void> serve(connection stream);
  asio::awaitable<reply> answer(connection stream, const request_sender& sender);
  asio::awaitable<reply> scrape();
  asio::awaitable<reply> hand_over(connection stream);
  void watch_wake();
  void run() noexcept;

  const system_config config;
  const system_context context;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  asio::steady_timer look;            ///< at the state, to see a wake that takes too long
  asio::steady_timer pause;           ///< after an accept that failed
  std::list<connection> connections;  ///< the oldest first
  bool accepting = false;
  bool watching = false;
  bool warned = false;
  std::thread thread;
};

result<void> system_port::impl::listen() {
  if (config.port == 0) return {};
  error_code ec;
  const auto address = asio::ip::make_address(config.address, ec);
  const tcp::endpoint endpoint(address, config.port);
  if (!ec) acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) return {};
  return error(errc::worker_start_failed,
               "cannot listen on the system port, " + config.address + " port " +
                   std::to_string(config.port) + ": " + ec.message(),
               "system-port");
}

void system_port::impl::start_accepting() {
  if (accepting || !acceptor.is_open()) return;
  auto loop = accept_loop();
  asio::co_spawn(io, std::move(loop), [this](const std::exception_ptr&) { accepting = false; });
  accepting = true;
}

asio::awaitable<void> system_port::impl::accept_loop() {
  for (;;) {
    auto [ec, socket] = co_await acceptor.async_accept(as_tuple_token);
    if (ec == asio::error::operation_aborted || ec == asio::error::bad_descriptor) co_return;
    if (!ec) {
      try {
        admit(std::move(socket));
        continue;
      } catch (const std::bad_alloc&) {
        ec = asio::error::no_memory;  // closed without an answer
      }
    }
    pause.expires_after(milliseconds(20));
    const auto [waited] = co_await pause.async_wait(as_tuple_token);
    static_cast<void>(waited);
  }
}

void system_port::impl::admit(tcp::socket socket) {
  if (connections.size() >= system_connections_max) {
    connections.front()->close();
    connections.pop_front();
  }
  connections.push_back(std::make_shared<beast::tcp_stream>(std::move(socket)));
  auto session = serve(connections.back());
  asio::co_spawn(io, std::move(session),
                 [this, one = connections.back()](const std::exception_ptr&) { connections.remove(one); });
}

/// One request and its answer.
asio::awaitable<void> system_port::impl::serve(connection stream) {
  stream->expires_after(exchange_limit);
  beast::flat_buffer buffer(header_bytes_max);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(header_bytes_max);
  const auto [failed, bytes] = co_await http::async_read_header(*stream, buffer, parser, as_tuple_token);
  static_cast<void>(bytes);
  if (failed == http::error::end_of_stream || failed == http::error::partial_message) co_return;
  if (failed && failed.category() != http::make_error_code(http::error::bad_method).category()) co_return;
  http_request request;
  request.request_id = "system";
  reply response = make_protocol_reply(400, "the request cannot be read");
  if (!failed) {
    request.method = std::string(parser.get().method_string());
    request.target = std::string(parser.get().target());
    const std::string host(parser.get()[http::field::host]);
    request_sender sender;
    sender.method = request.method;
    sender.target = request.target;
    sender.host = host;
    const std::string origin(parser.get()[http::field::origin]);
    const std::string site(parser.get()["Sec-Fetch-Site"]);
    sender.origin = origin;
    sender.fetch_site = site;
    error_code gone;
    const auto peer = stream->socket().remote_endpoint(gone);
    sender.on_loopback = !gone && unmapped(peer.address()).is_loopback();
    response = co_await answer(stream, sender);
  }
  const std::string out = render_reply(response, request, false);
  const auto [unwritten, written] = co_await asio::async_write(*stream, asio::buffer(out), as_tuple_token);
  static_cast<void>(unwritten);
  static_cast<void>(written);
  error_code ignored;
  stream->socket().shutdown(tcp::socket::shutdown_both, ignored);
}

asio::awaitable<reply> system_port::impl::answer(connection stream, const request_sender& sender) {
  if (const auto named = check_host(sender, config.hosts); !named) co_return make_error_reply(named.error());
  const auto facts = context.facts();
  if (!is_order(sender.method, sender.target)) {
    if (auto probe = answer_probe(sender.method, sender.target, facts)) co_return std::move(*probe);
    co_return co_await scrape();
  }
  if (const auto page = check_page(sender, config.hosts, {}); !page) co_return make_error_reply(page.error());
  if (const auto may = check_operator(sender, false, "stop the worker"); !may)
    co_return make_error_reply(may.error());
  if (sender.target.starts_with(wake_path)) co_return answer_order(facts, answer_wake(facts));
  co_return co_await hand_over(std::move(stream));
}

asio::awaitable<reply> system_port::impl::hand_over(connection stream) {
  struct pending {
    asio::steady_timer timer;
    result<void> done = error(errc::not_ready, "the other engine did not come to serve in time");
  };
  stream->expires_after(hand_over_limit + exchange_limit);
  const auto awaited = std::make_shared<pending>(pending{asio::steady_timer(io, hand_over_limit)});
  context.hand_over([this, weak = std::weak_ptr<pending>(awaited)](const result<void>& done) {
    if (weak.expired()) return;
    asio::post(io, [weak, done] {
      const auto waiting = weak.lock();
      if (!waiting) return;
      waiting->done = done;
      waiting->timer.cancel();
    });
  });
  const auto [waited] = co_await awaited->timer.async_wait(as_tuple_token);
  static_cast<void>(waited);
  co_return answer_order(context.facts(), awaited->done);
}

/// The engine's own families, then the worker's, if its thread answers in time. Only this coroutine owns what
/// it waits for: the worker may keep the handler for longer than this port exists.
asio::awaitable<reply> system_port::impl::scrape() {
  struct pending {
    asio::steady_timer timer;
    std::string text{};
  };
  const auto awaited = std::make_shared<pending>(pending{asio::steady_timer(io, scrape_limit)});
  context.scrape([this, weak = std::weak_ptr<pending>(awaited)](const std::string& made) {
    if (weak.expired()) return;
    asio::post(io, [weak, made] {
      const auto waiting = weak.lock();
      if (!waiting) return;
      waiting->text = made;
      waiting->timer.cancel();
    });
  });
  const auto [waited] = co_await awaited->timer.async_wait(as_tuple_token);
  static_cast<void>(waited);
  reply scraped = make_json_reply(200, render_failover_metrics(context.status) + awaited->text);
  scraped.content_type = "text/plain; version=0.0.4; charset=utf-8";
  co_return scraped;
}

/// Looks at the lock, not at the state: an io thread that is stuck does not even learn that it has the lock.
void system_port::impl::watch_wake() {
  watching = false;
  const auto state = context.status.state();
  const bool serves_later = state == failover_state::standby || state == failover_state::waking;
  if (serves_later && !warned && context.lock_held_for() > config.waking_timeout) {
    warned = true;
    context.on_waking_timeout();
  }
  look.expires_after(look_interval);
  look.async_wait([this](error_code failed) {
    if (!failed) watch_wake();
  });
  watching = true;
}

/// Whatever ended for lack of memory begins again.
void system_port::impl::run() noexcept {
  while (!io.stopped()) {
    try {
      start_accepting();
      if (!watching) watch_wake();
      io.run();
    } catch (const std::exception&) {
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
}

system_port::system_port(std::unique_ptr<impl> parts) : impl_(std::move(parts)) {}

result<std::unique_ptr<system_port>> system_port::start(system_config config, system_context context) {
  auto parts = std::make_unique<impl>(std::move(config), std::move(context));
  if (auto listened = parts->listen(); !listened) return listened.error();
  auto* const port = parts.get();
  port->thread = std::thread([port] { port->run(); });
  return std::unique_ptr<system_port>(new system_port(std::move(parts)));
}

system_port::~system_port() {
  impl_->io.stop();
  impl_->thread.join();
}

}  // namespace orcd::net
