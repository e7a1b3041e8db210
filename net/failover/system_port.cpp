#include "net/failover/system_port.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/beast/http.hpp>
#include <exception>
#include <list>
#include <new>
#include <thread>
#include <utility>

#include "net/failover/peer_user.hpp"
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

/// The values of the two headers that may have an API key.
struct shown_keys {
  std::string authorization;
  std::string x_api_key;
};

tcp_ends ends_of(const beast::tcp_stream& stream) {
  error_code gone;
  return {stream.socket().local_endpoint(gone), stream.socket().remote_endpoint(gone)};
}

/// Whether the peer is a program of root or of this process's own user.
bool runs_the_worker(const tcp_ends& ends) {
  const auto user = user_of_peer(ends);
  return user && (*user == 0 || *user == geteuid());
}

}  // namespace

struct system_port::impl {
  impl(system_config wanted, system_context parts)
      : config(std::move(wanted)), context(std::move(parts)), acceptor(io), look(io), pause(io) {}

  using connection = std::shared_ptr<beast::tcp_stream>;

  result<void> listen();
  error_code listen_at(std::uint32_t port);
  void start_accepting();
  asio::awaitable<void> accept_loop();
  void admit(tcp::socket socket);
  asio::awaitable<void> serve(connection stream);
  asio::awaitable<reply> answer(connection stream, const request_sender& sender, const shown_keys& shown);
  [[nodiscard]] result<void> judge(connection stream, const request_sender& sender, const shown_keys& shown,
                                   system_order order) const;
  asio::awaitable<reply> scrape();
  asio::awaitable<reply> hand_over(connection stream);
  void watch_wake();
  void run() noexcept;

  const system_config config;
  const system_context context;
  asio::io_context io{1};
  tcp::acceptor acceptor;
  std::uint16_t port = 0;             ///< that it listens on
  asio::steady_timer look;            ///< at the state, to see a wake that takes too long
  asio::steady_timer pause;           ///< after an accept that failed
  std::list<connection> connections;  ///< the oldest first
  bool accepting = false;
  bool watching = false;
  bool warned = false;
  std::thread thread;
};

error_code system_port::impl::listen_at(std::uint32_t wanted) {
  error_code ec;
  const auto address = asio::ip::make_address(config.address, ec);
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(wanted));
  if (!ec) acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) port = endpoint.port();
  error_code ignored;
  if (ec) acceptor.close(ignored);
  return ec;
}

result<void> system_port::impl::listen() {
  if (config.port == 0) return {};
  const std::uint32_t last = std::min(std::uint32_t{config.port} + config.others, std::uint32_t{65'535});
  error_code ec = asio::error::address_in_use;
  for (std::uint32_t next = config.port; next <= last && ec == asio::error::address_in_use; ++next) {
    if (next != config.serving_port) ec = listen_at(next);
  }
  if (!ec) return {};
  const auto range = last > config.port ? " to " + std::to_string(last) : std::string();
  return error(errc::worker_start_failed,
               "cannot listen on the system port, " + config.address + " port " +
                   std::to_string(config.port) + range + ": " + ec.message(),
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
    const shown_keys shown{std::string(parser.get()[http::field::authorization]),
                           std::string(parser.get()["X-Api-Key"])};
    response = co_await answer(stream, sender, shown);
  }
  const std::string out = render_reply(response, request, false);
  const auto [unwritten, written] = co_await asio::async_write(*stream, asio::buffer(out), as_tuple_token);
  static_cast<void>(unwritten);
  static_cast<void>(written);
  error_code ignored;
  stream->socket().shutdown(tcp::socket::shutdown_both, ignored);
}

/// Whether the sender may give the order. Which user the sender is of is looked up where that decides.
result<void> system_port::impl::judge(connection stream, const request_sender& sender,
                                      const shown_keys& shown, system_order order) const {
  if (const auto page = check_page(sender, config.hosts, {}); !page) return page.error();
  const auto keys = context.keys.get();
  const auto owner = keys->owner_of(shown.authorization, shown.x_api_key);
  const auto ends = ends_of(*stream);
  order_giver giver;
  giver.has_keys = !keys->empty();
  giver.owner = owner ? &*owner : nullptr;
  const bool is_operator = owner && owner->role == key_role::operations;
  giver.runs_the_worker = giver.has_keys && !is_operator && sender.on_loopback && runs_the_worker(ends);
  auto may = check_operator(sender, giver, {what_of(order)});
  const std::string route = std::string(sender.method) + " " + std::string(path_of(order));
  const std::string_view key_name = owner ? std::string_view(owner->label) : std::string_view();
  context.on_order({route, key_name, unmapped(ends.peer.address()).to_string(), may.has_value()});
  return may;
}

asio::awaitable<reply> system_port::impl::answer(connection stream, const request_sender& sender,
                                                 const shown_keys& shown) {
  if (const auto named = check_host(sender, config.hosts); !named) co_return make_error_reply(named.error());
  const auto facts = context.facts();
  const auto order = find_order(sender.method, sender.target);
  if (!order) {
    if (auto probe = answer_probe(sender.method, sender.target, facts)) co_return std::move(*probe);
    co_return co_await scrape();
  }
  if (const auto may = judge(stream, sender, shown, *order); !may) co_return make_error_reply(may.error());
  switch (*order) {
    case system_order::wake_up: co_return answer_order(facts, answer_wake(facts));
    case system_order::sleep: co_return co_await hand_over(std::move(stream));
    case system_order::shutdown: break;
  }
  context.shut_down();
  co_return make_json_reply(202, "{\"status\":\"draining\"}");
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
  const std::string own =
      context.status == nullptr ? std::string() : render_failover_metrics(*context.status);
  reply scraped = make_json_reply(200, own + awaited->text);
  scraped.content_type = "text/plain; version=0.0.4; charset=utf-8";
  co_return scraped;
}

/// Looks at the lock, not at the state: an io thread that is stuck does not even learn that it has the lock.
void system_port::impl::watch_wake() {
  watching = false;
  const auto state = context.status == nullptr ? failover_state::active : context.status->state();
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

std::uint16_t system_port::port() const noexcept {
  return impl_->port;
}

system_port::~system_port() {
  impl_->io.stop();
  impl_->thread.join();
}

}  // namespace orcd::net
