#include "net/server/server.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "engine/base/narration.hpp"
#include "net/failover/held_socket.hpp"
#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"
#include "net/server/session.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;
using engine::severity;

namespace {

/// Clients that are accepted while the server stops, at most: as many as the system lets wait.
constexpr int rest_max = 4'096;

/// A file descriptor in reserve: it is closed when there are no others, so that one waiting client can be
/// accepted and told why it is refused.
class spare_descriptor {
 public:
  spare_descriptor() { take(); }
  ~spare_descriptor() { give_up(); }
  spare_descriptor(const spare_descriptor&) = delete;
  spare_descriptor& operator=(const spare_descriptor&) = delete;

  void take() noexcept {
    if (held_ < 0) held_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }
  void give_up() noexcept {
    if (held_ >= 0) ::close(std::exchange(held_, -1));
  }

 private:
  int held_ = -1;
};

bool is_shortage(error_code ec) {
  return ec == asio::error::no_descriptors || ec == boost::system::errc::too_many_files_open_in_system;
}

}  // namespace

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
  spare_descriptor spare;
  std::shared_ptr<takeover> held;  ///< null: the server accepts its connections itself
  std::function<void()> stopped;
  std::size_t sessions = 0;  ///< session_guards that exist
  bool listens = false;      ///< the socket did already when it was passed
  bool accepting = false;    ///< the accept loop runs
  bool closed = false;       ///< the server object is gone or stopping: accept no more

  result<std::uint16_t> bind();
  result<std::uint16_t> take_listener(int descriptor);
  asio::awaitable<void> accept_loop(std::shared_ptr<impl> self);
  asio::awaitable<bool> after_failed_accept(error_code ec);
  void start_session(tcp::socket socket, connection_tier tier, journalled kept = {});
  void adopt(held_socket one, bool dead_engine);
  void adopt_one(held_socket one, bool dead_engine);
  void close_held(tcp::socket socket, std::uint32_t slot, std::uint64_t serial);
  void refuse(tcp::socket& socket, const error& why);
  void refuse_one();
  void take(tcp::socket socket);
  void admit(tcp::socket socket);
  void session_ended() noexcept;
  void start_accepting();
  void report(const std::exception_ptr& failure, std::string_view where);
  void stop(std::chrono::milliseconds grace, std::function<void()> done);
  void accept_the_rest();
  void finish_stop();
};

/// Counts a session for as long as its completion handler lives, however that ends.
struct session_guard {
  explicit session_guard(std::shared_ptr<server::impl> server) : owner(std::move(server)) {
    ++owner->sessions;
  }
  ~session_guard() { owner->session_ended(); }
  session_guard(const session_guard&) = delete;
  session_guard& operator=(const session_guard&) = delete;
  std::shared_ptr<server::impl> owner;
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

result<std::uint16_t> server::impl::take_listener(int descriptor) {
  error_code ec;
  const auto address = asio::ip::make_address(shared->config.address, ec);
  if (!ec) acceptor.assign(address.is_v6() ? tcp::v6() : tcp::v4(), descriptor, ec);
  const auto at = ec ? tcp::endpoint() : acceptor.local_endpoint(ec);
  if (ec) return error(errc::worker_start_failed, "cannot use the passed socket: " + ec.message());
  listens = true;
  return at.port();
}

/// Uses the spare descriptor to accept the first client in line and tell it why it is refused, so that it
/// does not wait in vain.
void server::impl::refuse_one() {
  spare.give_up();
  error_code ec;
  acceptor.non_blocking(true, ec);
  tcp::socket socket(io);
  if (!ec) acceptor.accept(socket, ec);
  if (!ec) refuse(socket, error(errc::not_ready, "the worker has no file descriptors left"));
  spare.take();
}

/// Out of file descriptors, most likely: make room and try again. False when the acceptor is closed.
asio::awaitable<bool> server::impl::after_failed_accept(error_code ec) {
  if (closed || ec == asio::error::operation_aborted || ec == asio::error::bad_descriptor) co_return false;
  if (is_shortage(ec) && !shared->connections.evict()) refuse_one();
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
    take(std::move(socket));
  }
}

void server::impl::take(tcp::socket socket) {
  ++shared->metrics.connections_total;
  try {
    admit(std::move(socket));
  } catch (const std::bad_alloc&) {
    ++shared->metrics.connections_refused;  // closed without an answer, for which there is no memory
  }
}

/// Starts a session on the tier that there is room for, or refuses the connection.
void server::impl::admit(tcp::socket socket) {
  error_code gone;
  const auto peer = socket.remote_endpoint(gone);
  if (gone) return;
  const auto& limits = shared->config.connections;
  const connection_tier tier = shared->connections.tier_for(peer.address());
  if (tier == connection_tier::none) {
    refuse(socket, too_many_connections(limits.connections_max));
  } else {
    start_session(std::move(socket), tier);
  }
}

void server::impl::start_session(tcp::socket socket, connection_tier tier, journalled kept) {
  auto guard = std::make_shared<session_guard>(shared_from_this());
  auto session = run_session(shared, std::move(socket), tier, std::move(kept));
  asio::co_spawn(io, std::move(session), [guard = std::move(guard)](const std::exception_ptr& failure) {
    guard->owner->report(failure, "session");
  });
}

/// The client sees the end only once the holder's duplicate is closed, too.
void server::impl::close_held(tcp::socket socket, std::uint32_t slot, std::uint64_t serial) {
  error_code ignored;
  socket.shutdown(tcp::socket::shutdown_both, ignored);
  socket.close(ignored);
  held->closed(slot, serial);
}

void server::impl::adopt(held_socket one, bool dead_engine) {
  const auto slot = one.slot;
  const auto serial = one.serial;
  auto kept = held->judge(one, dead_engine);
  tcp::socket socket(io);
  error_code ec;
  socket.assign(protocol_of(one.socket.get()), one.socket.get(), ec);
  if (ec) return held->closed(slot, serial);
  static_cast<void>(one.socket.release());
  const auto peer = socket.remote_endpoint(ec);
  if (ec || !kept) return close_held(std::move(socket), slot, serial);
  // What another engine served has its place.
  const connection_tier tier =
      kept->recovered ? connection_tier::regular : shared->connections.tier_for(peer.address());
  if (tier == connection_tier::none) {
    refuse(socket, too_many_connections(shared->config.connections.connections_max));
    kept.reset();
    return close_held(std::move(socket), slot, serial);
  }
  kept->closed = [of = held, slot, serial] { of->closed(slot, serial); };
  start_session(std::move(socket), tier, std::move(*kept));
}

void server::impl::adopt_one(held_socket one, bool dead_engine) {
  const auto slot = one.slot;
  const auto serial = one.serial;
  try {
    adopt(std::move(one), dead_engine);
  } catch (const std::bad_alloc&) {
    ++shared->metrics.connections_refused;
    held->closed(slot, serial);
  }
}

/// Tells the client why, without waiting: bytes that do not fit into the socket's buffer are not sent.
void server::impl::refuse(tcp::socket& socket, const error& why) {
  ++shared->metrics.connections_refused;
  shared->count_response(503);
  http_request nothing;
  nothing.request_id = "refused";
  const auto bytes = render_reply(make_error_reply(why), nothing, false);
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

void server::impl::session_ended() noexcept {
  --sessions;
  if (sessions == 0 && stopped) finish_stop();
}

/// Starts the accept loop. One that ended for lack of memory is started again a little later.
void server::impl::start_accepting() {
  if (closed || accepting) return;
  auto loop = accept_loop(shared_from_this());
  asio::co_spawn(io, std::move(loop), [self = shared_from_this()](const std::exception_ptr& failure) {
    self->accepting = false;
    if (!failure || self->closed) return;
    self->report(failure, "accept");
    self->pause.expires_after(std::chrono::milliseconds(20));
    self->pause.async_wait([self](error_code) { self->start_accepting(); });
  });
  accepting = true;
}

/// Serves the requests of clients that are connected and were not accepted: they would be lost with the
/// listening socket. One that was passed stays open at whoever passed it, and the next worker accepts them.
void server::impl::accept_the_rest() {
  if (listens || !acceptor.is_open()) return;
  error_code ec;
  acceptor.non_blocking(true, ec);
  for (int left = rest_max; left > 0 && !ec; --left) {
    tcp::socket socket(io);
    acceptor.accept(socket, ec);
    if (ec || readable_bytes(socket) == 0) continue;
    take(std::move(socket));
  }
}

void server::impl::finish_stop() {
  grace_timer.cancel();
  if (const auto done = std::exchange(stopped, nullptr)) done();
}

void server::impl::stop(std::chrono::milliseconds grace, std::function<void()> done) {
  closed = true;
  shared->stopping = true;
  // A second call (a second SIGTERM) may shorten the grace; the first caller is told as well.
  stopped = [first = std::move(stopped), done = std::move(done)] {
    if (first) first();
    if (done) done();
  };
  accept_the_rest();
  error_code ignored;
  acceptor.close(ignored);
  pause.cancel();
  // After what has been read already and waits for its turn: its connection does not look idle then.
  asio::post(io, [self = shared_from_this()] { self->shared->connections.close_idle(); });
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

std::size_t server::sessions() const noexcept {
  return impl_->sessions;
}

std::size_t server::unkept() const noexcept {
  return impl_->shared->connections.unkept();
}

std::size_t server::recovering() const noexcept {
  return impl_->shared->connections.recovering();
}

void server::leave_held(bool in_order) noexcept {
  if (!impl_->held) return;
  impl_->held->leave(in_order);
  impl_->shared->connections.leave_all();
}

server::~server() {
  leave_held(false);
  impl_->closed = true;
  error_code ignored;
  impl_->acceptor.close(ignored);
  impl_->pause.cancel();
}

result<std::uint16_t> server::bind() {
  return impl_->bind();
}

result<std::uint16_t> server::take_listener(int descriptor) {
  return impl_->take_listener(descriptor);
}

result<void> server::listen() {
  error_code ec;
  if (!impl_->listens) impl_->acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) return error(errc::worker_start_failed, "cannot listen: " + ec.message());
  impl_->start_accepting();
  return {};
}

result<takeover_counts> server::serve_held(int journal, held_config config, held_connections all) {
  const auto& before = impl_->held;
  if (before && (!before->is_left() || impl_->sessions > 0)) {
    return error(errc::internal, "connections of a holder are served already");
  }
  auto made = takeover::make(journal, std::move(config));
  if (!made) return made.error();
  if (before) (*made)->go_on_from(before->all_counts(), before->given_up());
  impl_->held = std::move(*made);
  impl_->held->begin(all);
  impl_->shared->more_families = [taken = impl_->held.get()] { return taken->render_metrics(); };
  impl_->shared->keeps_ends = [taken = impl_->held.get()] { return taken->keeps_ends(); };
  for (held_socket& one : all.sockets) impl_->adopt(std::move(one), true);
  return impl_->held->counts();
}

void server::know_digest(std::uint64_t digest) {
  if (impl_->held) impl_->held->know_digest(digest);
}

void server::adopt(held_socket held) {
  ++impl_->shared->metrics.connections_total;
  impl_->adopt_one(std::move(held), false);
}

void server::adopt_late(held_socket held) {
  impl_->adopt_one(std::move(held), true);
}

std::string server::scrape() const {
  return impl_->shared->scrape(false);
}

void server::limit_connections(std::size_t connections_max) {
  impl_->shared->config.connections.connections_max = connections_max;
  impl_->shared->connections.note_limit();
}

std::size_t server::connections() const noexcept {
  return impl_->shared->connections.size();
}

void server::stop(std::chrono::milliseconds grace, std::function<void()> done) {
  impl_->stop(grace, std::move(done));
}

}  // namespace orcd::net
