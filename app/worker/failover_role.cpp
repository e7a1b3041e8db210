#include "app/worker/failover_role.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "net/failover/weights_frames.hpp"

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

/// How often a waking engine tries for the port, which a dead engine may hold for some tens of milliseconds.
constexpr milliseconds port_interval{2};

net::flock_config lock_config(const failover_options& opts) {
  return {opts.lock_path, "engine-" + std::to_string(opts.engine_id), milliseconds(opts.lock_poll_ms)};
}

void narrate_leaving(engine::narrator& narrator, const engine::admission& jobs, severity level,
                     std::string_view event, std::string_view human) {
  narrator.narrate(level, event, human,
                   {{"running", std::uint64_t{jobs.running()}}, {"waiting", std::uint64_t{jobs.waiting()}}});
}

}  // namespace

failover_role::failover_role(asio::io_context& io, const failover_options& opts, engine::worker_state& state,
                             engine::narrator& narrator, hooks asked)
    : io_(io),
      opts_(opts),
      state_(state),
      narrator_(narrator),
      asked_(std::move(asked)),
      status_(opts.engine_id),
      lock_(io, lock_config(opts)),
      wake_timer_(io),
      pages_(io, narrator,
             {.take = [this](engine::page_ledger ledger,
                             auto done) { parts_->jobs.take_over_pages(ledger, std::move(done)); },
              .open = [this] { parts_->jobs.open_pages(); }}),
      hand_over_(io, opts.engine_id, narrator, hand_over_hooks()) {
  lock_.on_lost([this](const error& why) { asked_.fail(why); });
}

holder_role::hooks failover_role::holder_hooks() {
  return {.adopt = [this](net::held_socket one) { parts_->server.adopt(std::move(one)); },
          .adopt_late = [this](net::held_socket one) { parts_->server.adopt_late(std::move(one)); },
          .serve =
              [this](int journal, net::held_config config, net::held_connections held) {
                return parts_->server.serve_held(journal, std::move(config), std::move(held));
              },
          .rested = [this] { pages_.open(); },
          .hung_up = asked_.reload_told,
          .hand_over = [this] { hand_over_.request([](const result<void>&) {}); }};
}

hand_over_role::hooks failover_role::hand_over_hooks() {
  return {.state = [this] { return status_.state(); },
          .ending = asked_.ending,
          .holder_has_sockets = [this] { return can_leave(); },
          .unkept = [this] { return parts_->server.unkept(); },
          .ask = [this](hand_over_role::report_handler told) { holder_->ask(answers_, std::move(told)); },
          .step = [this](cycle_event event) { step(event); },
          .leave_connections = [this] { leave_connections(); },
          .end_jobs =
              [this](std::function<void()> done) {
                parts_->jobs.end_jobs([&io = io_, done = std::move(done)] { asio::post(io, done); });
              },
          .give_lock_up =
              [this] {
                holder_->yield(true);
                lock_.release();
              },
          .asleep = asked_.asleep,
          .sessions = [this] { return parts_->server.sessions(); },
          .recovering = [this] { return parts_->server.recovering(); },
          .lock_held_for = [this] { return lock_.held_for(); },
          .allow_stop = asked_.allow_stop,
          .fail = asked_.fail};
}

result<void> failover_role::link_holder(std::uint16_t system_port) {
  const auto use = opts_.holder;
  const auto path = net::holder_socket_path(opts_.dir);
  if (use == holder_use::off || (use == holder_use::automatic && !holder_role::is_there(path))) return {};
  holder_ = std::make_unique<holder_role>(io_, path, status_, state_, narrator_, holder_hooks());
  return holder_->open({opts_.engine_id, system_port});
}

void failover_role::know_digest(std::uint64_t digest) {
  answers_.weights.digest = digest;
  parts_->server.know_digest(digest);
  if (status_.state() == failover_state::standby && holder_) holder_->stand_by(answers_);
}

void failover_role::on_waking_timeout() {
  expired_ = true;
  asked_.out_of_time();
  std::string why;
  {
    const std::lock_guard held(mutex_);
    why = wake_problem_;
  }
  narrator_.narrate(
      severity::critical, "error",
      "The engine has the lock and did not come to serve in time" + (why.empty() ? "" : ": " + why),
      {{"code", engine::code_name(engine::errc::worker_start_failed)},
       {"phase", std::string_view("waking")},
       {"waking_timeout_ms", std::uint64_t{opts_.waking_timeout_ms}}});
}

void failover_role::step(cycle_event event) {
  const auto before = status_.state();
  const auto age = status_.since_entered();
  // Before anybody can see it: whoever does may have this engine serve at once.
  const bool comes_to_wait = event == cycle_event::initialised || event == cycle_event::left;
  if (comes_to_wait && holder_) holder_->stand_by(answers_);
  const auto action = cycle_.on(event);
  const auto now = status_.state();
  if (now != before) {
    narrator_.narrate(severity::info, "failover_state", "The engine is " + std::string(to_string(now)),
                      {{"from", to_string(before)},
                       {"to", to_string(now)},
                       {"engine_id", std::uint64_t{opts_.engine_id}},
                       {"ms_in_state", std::chrono::duration<double, std::milli>(age).count()}});
  }
  switch (action) {
    case cycle_action::none: return;
    case cycle_action::acquire_lock: return stand_by();
    case cycle_action::wake: return try_to_serve();
    case cycle_action::register_worker: return asked_.announce();
    case cycle_action::leave: return hand_over_.leave();
  }
}

void failover_role::stand_by() {
  state_.set(lifecycle::standby);
  weights_are_back_ = false;
  asked_.stands_by();
  lock_.acquire([this](const result<void>& granted) {
    if (asked_.ending() || state_.get() != lifecycle::standby) return;
    if (!granted) return asked_.fail_start(granted.error());
    state_.set(lifecycle::waking);
    // A holder tells what the one before was told; without one nobody does.
    if (!holder_ || !holder_->is_connected()) asked_.reload();
    step(cycle_event::lock_granted);
  });
}

/// The port of a dead engine is free when the kernel has closed its sockets, which is soon after its lock. A
/// port that never comes free ends with the waking timeout.
void failover_role::try_to_serve() {
  if (asked_.ending() || expired_) return;
  if (!weights_are_back_) {
    return asked_.get_weights([this] {
      weights_are_back_ = true;
      try_to_serve();
    });
  }
  if (asked_.reloading()) return asked_.when_reloaded([this] { try_to_serve(); });
  if (holder_) {
    if (const auto why = holder_->why_not(lock_.held_for())) return try_later(*why);
    asked_.use_holders_port();
    return take_connections();
  }
  if (const auto reserved = asked_.reserve(); !reserved) return try_later(reserved.error().message);
  if (const auto listened = asked_.listen(); !listened) return asked_.fail_start(listened.error());
  listening_ = true;
  step(cycle_event::serving);
}

void failover_role::try_later(const std::string& problem) {
  {
    const std::lock_guard held(mutex_);
    wake_problem_ = problem;
  }
  wake_timer_.expires_after(port_interval);
  wake_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) try_to_serve();
  });
}

/// Instead of the serving port. The lock is held already, so that whoever had these connections is gone.
void failover_role::take_connections() {
  holder_->take_over(asked_.room(), [this](net::held_connections held) { on_taken_over(std::move(held)); });
}

void failover_role::on_taken_over(net::held_connections held) {
  if (asked_.ending() || expired_) return;
  if (asked_.reloading()) {
    // What the holder has said of the engine before came first.
    const auto kept = std::make_shared<net::held_connections>(std::move(held));
    return asked_.when_reloaded([this, kept] { on_taken_over(std::move(*kept)); });
  }
  if (holder_->replaces_journal(held)) return take_connections();
  listening_ = true;
  step(cycle_event::serving);
  if (asked_.ending()) return;
  // What was under way goes on at once, whatever a callback will say of new jobs; and it is drained as any
  // other if the engine is asked to end before that.
  if (!held.sockets.empty()) asked_.serves_others();
  net::held_config config;
  config.identity = answers_;
  config.fingerprint = parts_->fingerprint;
  config.replays = opts_.replays;
  config.keeps_ends = [this] { return leaves_.load(); };
  if (const auto ledger = asked_.ledger()) pages_.take_over(*ledger);
  if (const auto served = holder_->serve(std::move(held), std::move(config)); !served) {
    asked_.fail(served.error());
  }
}

void failover_role::leave_connections() {
  narrate_leaving(narrator_, parts_->admission, severity::info, "hand_over",
                  "Another engine goes on with the connections");
  holder_->stop_taking();
  listening_ = false;
  pages_.forget();
  state_.set(lifecycle::standby);
  asked_.unlist();
  status_.set_epoch(0);
  parts_->server.leave_held(true);
}

void failover_role::leave_streams() {
  narrate_leaving(narrator_, parts_->admission, severity::warning, "connections_left",
                  "The next engine goes on with the connections");
  // A step that does not end keeps nobody's connection here: what it still tells is for sessions that are
  // gone.
  constexpr std::chrono::seconds step_limit{1};
  parts_->server.leave_held(in_order_);
  if (!parts_->jobs.stop(step_limit)) {
    narrator_.narrate(severity::warning, "step_left", "A step on the device does not end; its jobs are left");
  }
  holder_->leave();
}

void failover_role::on_failed(failure what) {
  step(cycle_event::failed);
  // What a lost device began no other engine of it can end.
  if (what == failure::device || !can_leave()) return;
  leaves_ = true;
  in_order_ = in_order_ || what == failure::start;
}

void failover_role::give_up() {
  if (holder_) holder_->yield(true);
  lock_.release();
  step(cycle_event::drain);
}

}  // namespace orcd::app
