// The worker as one of several engines of which one serves. Every engine goes the same way: it loads, checks
// everything, and only then asks for the lock. Source: the shadow flow of the failover plan.
#include <boost/asio/post.hpp>
#include <utility>

#include "app/process_limits.hpp"
#include "app/worker_parts.hpp"
#include "engine/narration.hpp"

namespace orcd::app {

namespace asio = boost::asio;
using engine::error;
using engine::lifecycle;
using engine::result;
using engine::severity;
using net::cycle_action;
using net::cycle_event;
using net::failover_state;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds beat_interval{500};
/// How often a waking engine tries for the port, which a dead engine may hold for some tens of milliseconds.
constexpr milliseconds port_interval{2};
/// For the last words of an engine whose wake takes too long.
constexpr milliseconds last_words{1'000};

/// To get weights back that were unmapped has a limit of its own.
milliseconds waking_limit(const failover_options& opts) {
  const bool unmaps = opts.standby_unmaps && opts.share_weights != holder_use::off;
  return milliseconds(opts.waking_timeout_ms) + milliseconds(unmaps ? opts.remap_timeout_ms : 0);
}

}  // namespace

/// What the probes of this engine depend on. On the system port's thread.
net::probe_facts worker::gather_probe_facts() const {
  // A step of the host backend may take many seconds on a small machine; a GPU's may not.
  const milliseconds limit =
      opts_.backend == backend_kind::host ? std::chrono::minutes(2) : std::chrono::seconds(30);
  net::probe_facts facts;
  facts.state = failover_->status.state();
  facts.lifecycle = state_.get();
  facts.cause = state_.cause();
  facts.moving = failover_->beats->are_younger_than(limit);
  facts.starts_healthy = opts_.failover.starts_healthy;
  facts.endpoint_only = opts_.failover.endpoint_health;
  facts.engine = opts_.failover.engine_id;
  facts.owner = failover_->lock.owner();
  facts.holder_connected = failover_->status.holder_connected();
  facts.resumed = failover_->status.resumed();
  facts.epoch = failover_->status.epoch();
  return facts;
}

std::optional<start_failure> worker::start_failover() {
  if (opts_.failover.dir.empty()) return std::nullopt;
  forbid_core_dumps();
  failover_ = std::make_unique<engine_failover>(io_, opts_.failover);
  if (const auto usable = failover_->lock.check(); !usable) return start_failure{usable.error(), {}, {}};
  failover_->lock.on_lost([this](const error& why) { on_fatal(why); });
  net::system_config config{opts_.host, *opts_.failover.port, waking_limit(opts_.failover),
                            serving_hosts(opts_)};
  net::system_context context{failover_->status,
                              [this] { return gather_probe_facts(); },
                              [this](std::function<void(std::string)> done) {
                                asio::post(io_, [this, done = std::move(done)] {
                                  done(server_ ? server_->scrape() : std::string());
                                });
                              },
                              [this] { return failover_->lock.held_for(); },
                              [this](std::function<void(result<void>)> done) {
                                asio::post(io_, [this, done = std::move(done)] { hand_over(done); });
                              },
                              [this] { on_waking_timeout(); }};
  auto port = net::system_port::start(std::move(config), std::move(context));
  if (!port) return start_failure{port.error(), {}, {}};
  failover_->port = std::move(*port);
  return link_holder();
}

/// On the system port's thread: whatever keeps the io thread, it does not keep this one.
void worker::on_waking_timeout() {
  failover_->expired = true;
  guard_.arm(last_words, exit_code::waking_timeout);
  std::string why;
  {
    const std::lock_guard held(failover_->mutex);
    why = failover_->wake_problem;
  }
  narrator_.narrate(
      severity::critical, "error",
      "The engine has the lock and did not come to serve in time" + (why.empty() ? "" : ": " + why),
      {{"code", engine::code_name(engine::errc::worker_start_failed)},
       {"phase", std::string_view("waking")},
       {"waking_timeout_ms", std::uint64_t{opts_.failover.waking_timeout_ms}}});
}

void worker::step_cycle(cycle_event event) {
  if (!failover_) return;
  const auto before = failover_->status.state();
  const auto age = failover_->status.since_entered();
  // Before anybody can see it: whoever does may have this engine serve at once.
  const bool comes_to_wait = event == cycle_event::initialised || event == cycle_event::left;
  if (comes_to_wait && failover_->link) failover_->link->stand_by(net::maker_number(failover_->maker));
  const auto action = failover_->cycle.on(event);
  const auto now = failover_->status.state();
  if (now != before) {
    narrator_.narrate(severity::info, "failover_state", "The engine is " + std::string(to_string(now)),
                      {{"from", to_string(before)},
                       {"to", to_string(now)},
                       {"engine_id", std::uint64_t{opts_.failover.engine_id}},
                       {"ms_in_state", std::chrono::duration<double, std::milli>(age).count()}});
  }
  switch (action) {
    case cycle_action::none: return;
    case cycle_action::acquire_lock: return stand_by();
    case cycle_action::wake: return try_to_serve();
    case cycle_action::register_worker: return announce();
    case cycle_action::leave: return leave_for_another();
  }
}

void worker::stand_by() {
  state_.set(lifecycle::standby);
  service_.ready("Engine " + std::to_string(opts_.failover.engine_id) + " stands by");
  if (!std::exchange(failover_->watched, true)) {
    beat();
    start_watchdog();
    start_watching();
  }
  weights_are_back_ = false;
  let_weights_go();
  failover_->lock.acquire([this](const result<void>& granted) {
    if (fsm_.ending() || state_.get() != lifecycle::standby) return;
    if (!granted) return fail_start({granted.error(), {}, {}});
    state_.set(lifecycle::waking);
    step_cycle(cycle_event::lock_granted);
  });
}

/// The port of a dead engine is free when the kernel has closed its sockets, which is soon after its lock. A
/// port that never comes free ends with the waking timeout.
void worker::try_to_serve() {
  if (fsm_.ending() || failover_->expired) return;
  if (!weights_are_back_) return get_weights_back();
  if (failover_->link) return take_connections();
  const auto port = reserve_port();
  if (!port) return try_later(port.error().message);
  use_port(*port);
  if (auto listened = server_->listen(); !listened) return fail_start({listened.error(), {}, {}});
  listening_ = true;
  step_cycle(cycle_event::serving);
}

void worker::try_later(const std::string& problem) {
  {
    const std::lock_guard held(failover_->mutex);
    failover_->wake_problem = problem;
  }
  failover_->wake_timer.expires_after(port_interval);
  failover_->wake_timer.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) try_to_serve();
  });
}

/// A sign of life of the io thread, and one asked of the GPU thread.
void worker::beat() {
  failover_->beats->of_io();
  gpu_thread_->post([beats = failover_->beats] { beats->of_gpu(); });
  if (failover_->link) failover_->link->ping(failover_->beats->gpu_progress());
  failover_->beat_timer.expires_after(beat_interval);
  failover_->beat_timer.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) beat();
  });
}

}  // namespace orcd::app
