#include "app/worker/ending.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "app/process/signal_policy.hpp"
#include "app/worker/start_words.hpp"

namespace orcd::app {

namespace asio = boost::asio;
using boost::system::error_code;
using engine::lifecycle;
using engine::severity;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds grace_when_forced{500};
/// After the last job, for some health checks of proxies.
constexpr milliseconds linger_limit{1'000};

}  // namespace

ending::ending(asio::io_context& io, const options& opts, engine::worker_state& state,
               service_manager& service, engine::narrator& narrator, hooks does)
    : io_(io),
      opts_(opts),
      drain_limit_(opts.drain_timeout_sec),
      state_(state),
      service_(service),
      narrator_(narrator),
      does_(std::move(does)),
      timer_(io) {}

void ending::post(shutdown_event event, const char* reason) {
  asio::post(io_, [this, event, reason] { handle(event, reason); });
}

void ending::handle(shutdown_event event, const char* reason) {
  perform(fsm_.on(event), reason);
}

void ending::perform(shutdown_action action, const char* reason) {
  switch (action) {
    case shutdown_action::none: return;
    case shutdown_action::cancel_start:
      narrator_.narrate(
          severity::info, "shutdown",
          does_.handed_over() ? "Stopped: another engine serves" : "Stopped before the worker was ready",
          {{"reason", std::string_view(reason)}});
      does_.cancel_start();
      does_.arm(abandon_limit, code());
      return;
    case shutdown_action::begin_drain: return begin_drain(reason);
    case shutdown_action::stop_server: return stop_server();
    case shutdown_action::finish: return does_.finish();
    case shutdown_action::exit_now:
      narrator_.narrate(severity::warning, "stopped", "Ended at once by another signal",
                        {{"exit_code", static_cast<std::int64_t>(code())}});
      does_.arm(grace_when_forced, code());
      does_.exit_now();
  }
}

void ending::fail_start(const start_failure& failure) {
  state_.set(lifecycle::failed);
  does_.start_failed();
  narrate_failure(narrator_, opts_, failure);
  service_.failed(failure.why.message);
  fsm_.set_failure_code(start_exit_code(failure.why));
  handle(shutdown_event::start_failed, "start-up failure");
}

void ending::fail(const engine::error& why, exit_code code) {
  state_.fail(engine::health_cause::lost);
  state_.set(lifecycle::failed);
  narrator_.narrate(severity::critical, "error", "The worker cannot go on: " + why.message,
                    {{"code", engine::code_name(why.code)}, {"phase", std::string_view("serving")}});
  service_.failed(why.message);
  asio::post(io_, [this, code] {
    does_.failed(code == exit_code::device_lost);
    fsm_.set_failure_code(code);
    handle(shutdown_event::fatal, "fatal failure");
  });
}

void ending::wind_up() {
  does_.arm(drain_limit_ + farewell_limit + teardown_limit, exit_code::failure);
  state_.fail(engine::health_cause::handler_out_of_memory);
  does_.listen_again();
  const auto action = fsm_.on(shutdown_event::exhausted);
  if (!std::exchange(exhausted_, true)) {
    narrator_.narrate(
        severity::critical, "error", "Out of memory: no new requests, running ones may finish",
        {{"code", engine::code_name(engine::errc::internal)}, {"phase", std::string_view("serving")}});
  }
  if (action == shutdown_action::begin_drain || !drain_begun_) begin_drain("out of memory");
}

void ending::begin_drain(const char* reason) {
  state_.set(lifecycle::draining);
  does_.leave_lists();
  does_.allow_stop(drain_limit_ + farewell_limit + teardown_limit, exit_code::terminated);
  narrator_.narrate(severity::info, "shutdown", "Draining: no new requests, running ones may finish",
                    {{"reason", std::string_view(reason)},
                     {"running", std::uint64_t{jobs_->running()}},
                     {"waiting", std::uint64_t{jobs_->waiting()}},
                     {"drain_timeout_s", static_cast<std::int64_t>(drain_limit_.count())}});
  service_.stopping(drain_limit_);
  timer_.expires_after(drain_limit_);
  timer_.async_wait([this](error_code failed) {
    if (failed) return;
    narrator_.narrate(
        severity::warning, "drain_timeout", "The drain took too long; ending what still runs",
        {{"running", std::uint64_t{jobs_->running()}}, {"waiting", std::uint64_t{jobs_->waiting()}}});
    handle(shutdown_event::drain_timeout, "drain timeout");
  });
  // New jobs are refused (503 DRAINING); open streams go on. Idle connections stay for one more request,
  // which may be under way: closing them would leave a proxy without an answer.
  jobs_->drain();
  jobs_->on_idle([this] { asio::post(io_, [this] { linger(); }); });
  drain_begun_ = true;
}

/// The last job is done. A proxy in front may not know yet that the worker drains: what it sends meanwhile is
/// answered with 503, which it can try elsewhere, unlike a request that is cut off.
void ending::linger() {
  const auto done = [this] { handle(shutdown_event::idle, "drained"); };
  if (!does_.lingers()) return done();
  timer_.expires_at(std::min(timer_.expiry(), std::chrono::steady_clock::now() + linger_limit));
  timer_.async_wait([done](error_code failed) {
    if (!failed) done();
  });
}

void ending::stop_server() {
  timer_.cancel();
  const auto grace = code() != exit_code::ok ? grace_when_forced : farewell_limit;
  does_.arm(grace + teardown_limit, code());
  does_.stop_server(grace);
}

}  // namespace orcd::app
