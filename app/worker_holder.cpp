// The worker's connections where a holder accepts them, so that they outlive the engine that serves them.
// While no holder is there the engine accepts by itself, and gives everything to the next one.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "app/worker_parts.hpp"
#include "engine/narration.hpp"
#include "net/failover/held_socket.hpp"

namespace orcd::app {

namespace asio = boost::asio;
using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;
using engine::severity;
using tcp = asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds pause_length{20};
constexpr std::chrono::milliseconds holder_wait{500};  // it is looked for every 100 ms
constexpr std::chrono::milliseconds rest_interval{5};
/// For the word of the holder that a process has ended: what the device does for it is over in a tenth of a
/// second.
constexpr std::chrono::seconds pages_limit{10};
/// For another engine to serve, before this one asks for the lock again.
constexpr std::chrono::seconds follow_limit{5};
/// For sessions to end, of which some wait for a background thread.
constexpr std::chrono::seconds rest_limit{90};

bool is_socket(const std::string& path) noexcept {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode);
}

}  // namespace

std::optional<start_failure> worker::link_holder() {
  const auto use = opts_.failover.holder;
  const auto path = net::holder_socket_path(opts_.failover.dir);
  if (use == holder_use::off || (use == holder_use::automatic && !is_socket(path))) return std::nullopt;
  net::holder_events events;
  events.accepted = [this](net::held_socket one) {
    // Without the role it stays with the holder, for the engine that has it.
    if (failover_->takes_connections) server_->adopt(std::move(one));
  };
  events.came_late = [this](net::held_socket one) {
    if (failover_->takes_connections) server_->adopt_late(std::move(one));
  };
  events.rested = [this] { open_pages(); };
  events.lost = [this] { on_holder_lost(); };
  events.connected = [this] { on_holder_connected(); };
  failover_->link =
      std::make_shared<net::holder_link>(io_, path, opts_.failover.engine_id, std::move(events));
  if (const auto opened = failover_->link->open(); !opened) return start_failure{opened.error(), {}, {}};
  failover_->status.set_holder(true);
  return std::nullopt;
}

/// Instead of the serving port. The lock is held already, so that whoever had these connections is gone.
void worker::take_connections() {
  auto& link = *failover_->link;
  // A holder that has just been started has everything from the engine before: it is worth a moment.
  const bool may_come =
      failover_->lock.held_for() < holder_wait && is_socket(net::holder_socket_path(opts_.failover.dir));
  if (!link.is_connected() && may_come) return try_later("the holder is not there yet");
  if (link.listener() < 0) return try_later("the holder does not have the serving port");
  use_port(opts_.port);
  link.take_over(room_for_held(), [this](net::held_connections held) { on_taken_over(std::move(held)); });
}

/// Connections that there are descriptors for: more than that cannot be received.
std::uint32_t worker::room_for_held() {
  const auto plan = plan_connections(spare_descriptors(), net::held_sockets_max);
  return plan ? std::max(plan->connections, std::uint32_t{1}) : net::held_sockets_max;
}

void worker::on_taken_over(net::held_connections held) {
  if (fsm_.ending() || failover_->expired) return;
  listening_ = true;
  step_cycle(net::cycle_event::serving);
  if (fsm_.ending()) return;
  // What was under way goes on at once, whatever a callback will say of new jobs; and it is drained as any
  // other if the engine is asked to end before that.
  if (!held.sockets.empty()) {
    state_.set(engine::lifecycle::ready);
    handle(shutdown_event::loaded, "");
    guard_.enter(run_phase::serving);
  }
  net::held_config config;
  config.maker = failover_->maker;
  config.replays = opts_.failover.replays;
  // Sessions may outlive the link.
  config.closed = [to = std::weak_ptr<net::holder_link>(failover_->link)](std::uint32_t slot,
                                                                          std::uint64_t serial) {
    if (const auto there = to.lock()) there->closed(slot, serial);
  };
  config.keeps_ends = [this] { return failover_->leaves.load(); };
  const std::uint64_t all = held.sockets.size();
  take_pages_over();
  const auto counts = server_->serve_held(failover_->link->journal(), std::move(config), std::move(held));
  if (!counts) return on_fatal(counts.error());
  failover_->takes_connections = true;
  failover_->status.set_resumed(failover_->status.resumed() + counts->resumed);
  if (all > 0) narrate_takeover(all, *counts);
  if (!failover_->link->is_connected()) on_holder_lost();
  if (failover_->link->is_connected() && !failover_->link->is_complete()) failover_->link->offer();
  failover_->can_leave = failover_->link->is_connected();
}

/// What the engine before has computed is known at once. What it may still write to, until the system has
/// ended all of it, is used later.
void worker::take_pages_over() {
  const auto ledger = weights_ ? weights_->ledger() : std::nullopt;
  if (!ledger) return;
  failover_->taken_at = std::chrono::steady_clock::now();
  gpu_thread_->take_over_pages(*ledger, [this](std::uint32_t known, std::uint32_t closed) {
    narrator_.narrate(severity::info, "pages_taken_over", "Goes on with the KV cache of the engine before",
                      {{"known", std::uint64_t{known}}, {"closed", std::uint64_t{closed}}});
  });
  failover_->pages_timer.expires_after(pages_limit);
  failover_->pages_timer.async_wait([this](error_code failed) {
    if (failed) return;
    narrator_.narrate(severity::warning, "pages_not_told",
                      "Nobody says that the engine before has ended for good");
    open_pages();
  });
}

void worker::open_pages() {
  if (failover_->taken_at == std::chrono::steady_clock::time_point{}) return;
  narrator_.narrate(severity::info, "pages_open", "The engine before has ended for good",
                    {{"waited_ms", ms_since(std::exchange(failover_->taken_at, {}))}});
  failover_->pages_timer.cancel();
  gpu_thread_->open_pages();
}

void worker::narrate_takeover(std::uint64_t all, const net::takeover_counts& counts) {
  narrator_.narrate(severity::info, "connections_taken_over", "Goes on with connections of the engine before",
                    {{"connections", all},
                     {"resumed", counts.resumed},
                     {"idle", counts.idle},
                     {"fresh", counts.fresh},
                     {"lost", counts.lost},
                     {"conflicts", counts.conflicts}});
}

void worker::on_holder_lost() {
  failover_->can_leave = false;
  failover_->status.set_holder(false);
  state_.set_holder(false);
  narrator_.narrate(severity::warning, "holder_lost", "The holder is gone and is looked for");
  accept_without_holder();
}

/// Where the system is short of what it takes, connects wait for the next try or the next holder.
void worker::accept_without_holder() {
  const int listener = failover_->link->listener();
  if (!failover_->takes_connections || failover_->substitute || listener < 0) return;
  if (failover_->link->is_connected()) return;
  net::file_descriptor duplicate(::fcntl(listener, F_DUPFD_CLOEXEC, 0));
  if (duplicate) {
    error_code failed;
    failover_->substitute.emplace(io_).assign(net::protocol_of(duplicate.get()), duplicate.get(), failed);
    if (!failed) {
      static_cast<void>(duplicate.release());
      return accept_itself();
    }
    failover_->substitute.reset();
  }
  failover_->pause.expires_after(pause_length);
  failover_->pause.async_wait([this](error_code ended) {
    if (!ended) accept_without_holder();
  });
}

/// Takes a connection out of the kernel's queue only while it can be served: what a holder has been offered
/// must be all that there is.
void worker::accept_itself() {
  failover_->substitute->async_wait(tcp::acceptor::wait_read, [this](error_code failed) {
    if (failed || !failover_->substitute) return;
    net::file_descriptor client(
        ::accept4(failover_->substitute->native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) {
      auto kept = failover_->link->keep(std::move(client));
      if (kept) server_->adopt(std::move(*kept));
      return accept_itself();
    }
    failover_->pause.expires_after(pause_length);
    failover_->pause.async_wait([this](error_code ended) {
      if (!ended && failover_->substitute) accept_itself();
    });
  });
}

void worker::on_holder_connected() {
  failover_->status.set_holder(true);
  state_.set_holder(true);
  narrator_.narrate(severity::info, "holder_connected", "A holder is there again");
  failover_->substitute.reset();
  if (failover_->takes_connections) failover_->link->offer();
  failover_->can_leave = failover_->takes_connections;
}

/// What connects from now on is the next engine's.
void worker::leave_connections() {
  failover_->takes_connections = false;
  failover_->substitute.reset();
  failover_->link->yield(false);
}

/// A failing engine ends without a word to its clients: the next one goes on with what they asked for.
void worker::leave_streams() {
  narrator_.narrate(
      severity::warning, "connections_left", "The next engine goes on with the connections",
      {{"running", std::uint64_t{admission_->running()}}, {"waiting", std::uint64_t{admission_->waiting()}}});
  server_->leave_held(failover_->leaves_well);
  gpu_thread_->stop();
  leave_connections();
  post_event(shutdown_event::stopped, "");
}

/// Why no other engine can serve instead of this one, as far as this one knows.
std::optional<error> worker::hand_over_problem() const {
  const auto problem = [](std::string why) { return error(errc::not_ready, std::move(why)); };
  if (!failover_) return problem("this worker is not one of several engines");
  const auto state = failover_->status.state();
  if (state != net::failover_state::active) return problem("the engine is " + std::string(to_string(state)));
  if (!failover_->announced || fsm_.ending()) return problem("the engine does not take requests");
  if (!failover_->can_leave) return problem("there is no holder that has the connections");
  if (const auto unkept = server_->unkept(); unkept > 0) {
    return problem(std::to_string(unkept) + " connections would be lost: the journal had no room for them");
  }
  return std::nullopt;
}

/// `told` hears of the end, or why it is not done.
void worker::hand_over(std::function<void(const result<void>&)> told) {
  const auto refuse = [this, told](const error& why) {
    narrator_.narrate(severity::warning, "hand_over_refused", "The engine goes on: " + why.message);
    told(why);
  };
  if (const auto problem = hand_over_problem()) return refuse(*problem);
  failover_->link->ask(net::maker_number(failover_->maker), [this, refuse, told](const auto& report) {
    if (const auto problem = hand_over_problem()) return refuse(*problem);
    if (!report) return refuse({errc::not_ready, "the holder does not answer"});
    if (report->standbys == 0) {
      return refuse({errc::not_ready, "no engine stands by that would answer as this one does"});
    }
    if (report->others > 0) {
      return refuse(
          {errc::not_ready, "an engine stands by that would answer otherwise, and could be the next"});
    }
    failover_->handed_over = told;
    step_cycle(net::cycle_event::hand_over);
  });
}

/// First the clients' connections, so that not a byte is sent that the journal does not tell of; then the
/// device comes to rest; then another engine may have the lock.
void worker::leave_for_another() {
  narrator_.narrate(
      severity::info, "hand_over", "Another engine goes on with the connections",
      {{"running", std::uint64_t{admission_->running()}}, {"waiting", std::uint64_t{admission_->waiting()}}});
  failover_->takes_connections = failover_->announced = listening_ = false;
  failover_->can_leave = false;
  failover_->taken_at = {};
  failover_->pages_timer.cancel();
  state_.set(engine::lifecycle::standby);
  if (registrar_) registrar_->leave();
  failover_->status.set_epoch(0);
  server_->leave_held(true);
  gpu_thread_->end_jobs([this] { asio::post(io_, [this] { give_role_up(); }); });
}

void worker::give_role_up() {
  if (fsm_.ending() || failover_->status.state() != net::failover_state::yielding) return;
  failover_->link->yield(true);
  failover_->lock.release();
  failover_->left_at = std::chrono::steady_clock::now();
  handle(shutdown_event::asleep, "");
  guard_.enter(run_phase::loading);
  await_rest();
}

/// The lock is not asked for again before another engine has it: this one would be the first to get it.
void worker::await_rest() {
  failover_->link->ask(net::maker_number(failover_->maker), [this](const auto& report) {
    if (fsm_.ending() || failover_->status.state() != net::failover_state::yielding) return;
    const bool followed =
        report && report->active != net::no_engine && report->active != opts_.failover.engine_id;
    const auto waited = std::chrono::steady_clock::now() - failover_->left_at;
    const bool rests = server_->sessions() == 0;
    if (rests && (followed || waited > follow_limit)) return stand_by_again(followed);
    if (waited > rest_limit) return on_fatal({errc::internal, "sessions have not ended after a hand-over"});
    failover_->rest_timer.expires_after(rest_interval);
    failover_->rest_timer.async_wait([this](error_code failed) {
      if (!failed) await_rest();
    });
  });
}

void worker::stand_by_again(bool followed) {
  step_cycle(net::cycle_event::left);
  const auto told = std::exchange(failover_->handed_over, nullptr);
  if (!told) return;
  if (followed) return told({});
  told(error(errc::not_ready, "no other engine has come to serve within 5 s"));
}

}  // namespace orcd::app
