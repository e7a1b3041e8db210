#include "net/server.hpp"

#include <exception>
#include <utility>

#include "engine/narration.hpp"
#include "net/asio.hpp"
#include "net/service.hpp"
#include "net/session.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;
using engine::severity;

struct server::impl : std::enable_shared_from_this<server::impl> {
  impl(asio::io_context& context, server_config config, server_context services)
      : io(context),
        shared(std::make_shared<service>(std::move(config), std::move(services))),
        acceptor(context),
        pause(context),
        grace_timer(context) {}

  asio::io_context& io;
  std::shared_ptr<service> shared;
  tcp::acceptor acceptor;
  asio::steady_timer pause;  ///< after an accept that failed
  asio::steady_timer grace_timer;
  std::function<void()> stopped;
  std::size_t sessions = 0;
  bool closed = false;  ///< the server object is gone or stopping: accept no more

  result<std::uint16_t> bind();
  asio::awaitable<void> accept_loop(std::shared_ptr<impl> self);
  asio::awaitable<bool> after_failed_accept(error_code ec);
  void start_session(tcp::socket socket);
  void refuse(tcp::socket socket);
  void session_ended(const std::exception_ptr& failure);
  void report(const std::exception_ptr& failure, std::string_view where);
  void stop(std::chrono::milliseconds grace, std::function<void()> done);
  void finish_stop();
};

result<std::uint16_t> server::impl::bind() {
  const auto& config = shared->config;
  const auto fail = [&](const std::string& reason) {
    return error(errc::worker_start_failed, "cannot listen on " + config.address + " port " +
                                                std::to_string(config.port) + ": " + reason);
  };
  error_code ec;
  const auto address = asio::ip::make_address(config.address, ec);
  if (ec) return fail("not an IP address");
  const tcp::endpoint endpoint(address, config.port);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (ec) {
    error_code ignored;
    acceptor.close(ignored);
    return fail(ec.message());
  }
  return acceptor.local_endpoint().port();
}

/// Out of file descriptors, most likely: make room and try again. False when the acceptor is closed.
asio::awaitable<bool> server::impl::after_failed_accept(error_code ec) {
  if (closed || ec == asio::error::operation_aborted || ec == asio::error::bad_descriptor) co_return false;
  shared->connections.evict_oldest_idle();
  pause.expires_after(std::chrono::milliseconds(20));
  const auto [waited] = co_await pause.async_wait(as_tuple_token);
  static_cast<void>(waited);
  co_return !closed;
}

asio::awaitable<void> server::impl::accept_loop(std::shared_ptr<impl> self) {
  static_cast<void>(self);  // keeps this alive while the loop runs
  for (;;) {
    auto [ec, socket] = co_await acceptor.async_accept(as_tuple_token);
    if (ec) {
      if (!co_await after_failed_accept(ec)) co_return;
      continue;
    }
    ++shared->metrics.connections_total;
    const bool full = shared->connections.size() >= shared->config.connections.connections_max;
    if (full && !shared->connections.evict_oldest_idle()) {
      refuse(std::move(socket));
    } else {
      start_session(std::move(socket));
    }
  }
}

void server::impl::start_session(tcp::socket socket) {
  ++sessions;
  auto session = run_session(shared, std::move(socket));
  asio::co_spawn(io, std::move(session), [self = shared_from_this()](const std::exception_ptr& failure) {
    self->session_ended(failure);
  });
}

/// Says why without waiting: what does not fit in the socket's buffer is not sent.
void server::impl::refuse(tcp::socket socket) {
  ++shared->metrics.connections_refused;
  shared->count_response(503);
  http_request nothing;
  nothing.request_id = "refused";
  const auto bytes =
      render_reply(make_error_reply(error(errc::not_ready,
                                          "too many connections: the limit is " +
                                              std::to_string(shared->config.connections.connections_max))),
                   nothing, false);
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void server::impl::report(const std::exception_ptr& failure, std::string_view where) {
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    shared->context.narrator.narrate(
        severity::error, "error", "A connection ended with an exception.",
        {{"where", where}, {"code", std::string_view("INTERNAL")}, {"reason", std::string_view(e.what())}});
  }
}

void server::impl::session_ended(const std::exception_ptr& failure) {
  report(failure, "session");
  --sessions;
  if (sessions == 0 && stopped) finish_stop();
}

void server::impl::finish_stop() {
  grace_timer.cancel();
  if (const auto done = std::exchange(stopped, nullptr)) done();
}

void server::impl::stop(std::chrono::milliseconds grace, std::function<void()> done) {
  closed = true;
  shared->stopping = true;
  // A second call (a second SIGTERM) may shorten the grace; whoever waits for the first is told too.
  stopped = [first = std::move(stopped), done = std::move(done)] {
    if (first) first();
    if (done) done();
  };
  error_code ignored;
  acceptor.close(ignored);
  pause.cancel();
  shared->connections.close_idle();
  shared->cancel_all(engine::cancel_reason::shutdown);
  grace_timer.expires_after(grace);
  grace_timer.async_wait([self = shared_from_this()](error_code ec) {
    if (ec) return;
    self->shared->connections.close_all();
    self->finish_stop();
  });
  if (sessions == 0) {
    asio::post(io, [self = shared_from_this()] { self->finish_stop(); });
  }
}

server::server(asio::io_context& io, server_config config, server_context context)
    : impl_(std::make_shared<impl>(io, std::move(config), std::move(context))) {}

server::~server() {
  impl_->closed = true;
  error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->pause.cancel();
}

result<std::uint16_t> server::bind() {
  return impl_->bind();
}

result<void> server::listen() {
  error_code ec;
  impl_->acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return error(errc::worker_start_failed, "cannot listen: " + ec.message());
  auto loop = impl_->accept_loop(impl_);
  asio::co_spawn(impl_->io, std::move(loop),
                 [self = impl_](const std::exception_ptr& failure) { self->report(failure, "accept"); });
  return {};
}

void server::begin_drain() {
  impl_->shared->context.admission.drain();
  impl_->shared->connections.close_idle();
}

void server::stop(std::chrono::milliseconds grace, std::function<void()> done) {
  impl_->stop(grace, std::move(done));
}

}  // namespace orcd::net
