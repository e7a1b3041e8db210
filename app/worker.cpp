#include "app/worker.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <utility>

#include "app/worker_parts.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::error;
using engine::lifecycle;
using engine::severity;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr milliseconds grace_when_forced{500};

/// Asks the kernel to give the io thread a processor soon, for short slices, where processors are few (Linux
/// 6.12 and newer). A kernel or a system-call filter that refuses it costs some latency.
void ask_for_short_turns() noexcept {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime_ns, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime_ns = 100'000;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0U));
}

/// Runs the io thread's handlers until it is stopped. Where processors are few, streams are computed on the
/// same one, and the kernel switches between threads only at its tick, every few milliseconds: so this thread
/// yields now and then while it has much to do.
void run_handlers(asio::io_context& io) {
  constexpr std::chrono::microseconds turn{200};
  auto begun = clock::now();
  while (io.run_one() > 0) {
    if (clock::now() - begun < turn) continue;
    ::sched_yield();
    begun = clock::now();
  }
}

}  // namespace

worker::~worker() {
  guard_.arm(abandon_limit, fsm_.code());
  if (server_) server_->leave_held(false);
  cancel_load_ = true;
  digest_.request_stop();
  if (weights_) weights_->cancel();
  // Background tasks read what belongs to the server.
  background_.stop();
  if (gpu_thread_) gpu_thread_->stop();
  // Neither thread uses the shared weights any more.
  if (digest_.joinable()) digest_.join();
  weights_.reset();
  if (!gpu_thread_) return;
  // The GPU's memory is freed by the thread that allocated it; nothing uses the accelerator after stop().
  gpu_thread_->post([this] { accelerator_.reset(); });
}

exit_code worker::run() {
  listen_to_signals();
  narrate_startup();
  auto failure = start_failover();
  if (!failure) failure = open();
  if (!failure) failure = link_weights();
  if (failure) {
    // A signal that came meanwhile made open() give up: that is no failure.
    if (guard_.stop_asked()) {
      narrator_.narrate(severity::info, "shutdown", "Stopped before the worker was ready",
                        {{"reason", std::string_view("signal")}});
      return exit_code::ok;
    }
    fail_start(*failure);
    return exit_code::failure;
  }
  guard_.enter(run_phase::loading);
  start_digest();
  start_load();
  ask_for_short_turns();
  run_io();
  return fsm_.code();
}

/// A handler that runs out of memory may have been the only thing that would continue a stream or a timer,
/// and nobody can say which: the streams that still move may finish, and then the process ends, to be
/// restarted. A session that catches its own shortage does not come here. Start-up is one chain of handlers
/// and ends at once.
void worker::run_io() {
  constexpr unsigned tries_max = 200;
  constexpr milliseconds pause{10};
  for (unsigned failures = 0;;) {
    try {
      if (failures > 0) wind_up();
      run_handlers(io_);
      return;
    } catch (const std::bad_alloc&) {
      if (++failures > tries_max || engine::is_before_ready(state_.get())) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

/// Begins the end of the worker; again after each failure, which may have cut short what the last call began.
void worker::wind_up() {
  const std::chrono::seconds limit(opts_.drain_timeout_sec);
  guard_.arm(limit + farewell_limit + teardown_limit, exit_code::failure);
  state_.fail(engine::health_cause::handler_out_of_memory);
  signals_.cancel();
  await_signals();
  const auto action = fsm_.on(shutdown_event::exhausted);
  if (!std::exchange(exhausted_, true)) {
    narrator_.narrate(
        severity::critical, "error", "Out of memory: no new requests, running ones may finish",
        {{"code", engine::code_name(engine::errc::internal)}, {"phase", std::string_view("serving")}});
  }
  if (action == shutdown_action::begin_drain || !drain_begun_) begin_drain("out of memory");
  start_watching();
}

void worker::start_watching() {
  if (opts_.backend == backend_kind::host && !weights_) watch_file();
  if (opts_.backend == backend_kind::cuda && opts_.residency_check_sec != 0) watch_residency();
  if (watchdog_) watch(watch_interval_);
}

void worker::watch(milliseconds interval) {
  const auto [feed, ping] = watchdog_->tick(clock::now(), *pings_answered_);
  if (feed) service_.feed_watchdog();
  if (ping) gpu_thread_->post([answered = pings_answered_] { answered->fetch_add(1); });
  watchdog_timer_.expires_after(interval);
  watchdog_timer_.async_wait([this, interval](const boost::system::error_code& failed) {
    if (!failed) watch(interval);
  });
}

/// The host backend reads its weights from the mapped file all the time; a file that was cut short or written
/// to would give wrong tokens, so that the worker ends instead. Jobs end with that error, like those that a
/// step finds it for, and not because the worker is ending.
void worker::watch_file() {
  constexpr std::chrono::seconds interval{1};
  if (const auto intact = model_->file.check_intact(); !intact) return gpu_thread_->fail(intact.error());
  file_timer_.expires_after(interval);
  file_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_file();
  });
}

/// Checks on the GPU thread, so that the answer is about a moment between two steps (M0-W-1012).
void worker::watch_residency() {
  gpu_thread_->post([this] {
    auto failures = accelerator_->audit();
    if (failures.empty()) return;
    asio::post(io_, [this, failures = std::move(failures)] { on_not_resident(failures); });
  });
  residency_timer_.expires_after(std::chrono::seconds(opts_.residency_check_sec));
  residency_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_residency();
  });
}

/// Reports once: memory that has left VRAM does not come back, and one critical event is enough.
void worker::on_not_resident(const std::vector<std::string>& failures) {
  residency_timer_.cancel();
  if (!state_.resident.exchange(false)) return;
  state_.fail(engine::health_cause::not_resident);
  std::string list;
  for (const auto& failure : failures) list += (list.empty() ? "" : "; ") + failure;
  narrator_.narrate(
      severity::critical, "not_resident", "The model is no longer in VRAM: " + list,
      {{"code", engine::code_name(engine::errc::cuda_error)}, {"failures", std::uint64_t{failures.size()}}});
}

/// Any thread; the GPU thread calls it after every job got its error event.
void worker::on_fatal(const error& why, exit_code code) {
  state_.fail(engine::health_cause::lost);
  state_.set(lifecycle::failed);
  narrator_.narrate(severity::critical, "error", "The worker cannot go on: " + why.message,
                    {{"code", engine::code_name(why.code)}, {"phase", std::string_view("serving")}});
  service_.failed(why.message);
  asio::post(io_, [this, code] {
    step_cycle(net::cycle_event::failed);
    fsm_.set_failure_code(code);
    // What a lost device began no other engine of it can end.
    if (failover_ && code != exit_code::device_lost && failover_->can_leave) failover_->leaves = true;
    handle(shutdown_event::fatal, "fatal failure");
  });
}

void worker::post_event(shutdown_event event, const char* reason) {
  asio::post(io_, [this, event, reason] { handle(event, reason); });
}

void worker::handle(shutdown_event event, const char* reason) {
  perform(fsm_.on(event), reason);
}

void worker::perform(shutdown_action action, const char* reason) {
  switch (action) {
    case shutdown_action::none: return;
    case shutdown_action::cancel_start:
      narrator_.narrate(severity::info, "shutdown", "Stopped before the worker was ready",
                        {{"reason", std::string_view(reason)}});
      cancel_load_ = true;
      if (weights_) weights_->cancel();
      step_cycle(net::cycle_event::drain);
      guard_.arm(abandon_limit, fsm_.code());
      io_.stop();
      return;
    case shutdown_action::begin_drain: return begin_drain(reason);
    case shutdown_action::stop_server: return stop_server();
    case shutdown_action::finish:
      // The port is closed: the next engine need not wait for the rest, nor find it at its connections.
      if (server_) server_->leave_held(false);
      if (failover_) failover_->lock.release();
      if (traces_) traces_->leave();
      io_.stop();
      return;
    case shutdown_action::exit_now:
      narrator_.narrate(severity::warning, "stopped", "Ended at once by another signal",
                        {{"exit_code", static_cast<std::int64_t>(fsm_.code())}});
      guard_.arm(grace_when_forced, fsm_.code());
      narrator_.flush();
      std::_Exit(static_cast<int>(fsm_.code()));
  }
}

void worker::begin_drain(const char* reason) {
  state_.set(lifecycle::draining);
  step_cycle(net::cycle_event::drain);
  if (registrar_) registrar_->leave();
  const std::chrono::seconds limit(opts_.drain_timeout_sec);
  narrator_.narrate(severity::info, "shutdown", "Draining: no new requests, running ones may finish",
                    {{"reason", std::string_view(reason)},
                     {"running", std::uint64_t{admission_->running()}},
                     {"waiting", std::uint64_t{admission_->waiting()}},
                     {"drain_timeout_s", static_cast<std::int64_t>(limit.count())}});
  service_.stopping(limit);
  drain_timer_.expires_after(limit);
  drain_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    narrator_.narrate(severity::warning, "drain_timeout", "The drain took too long; ending what still runs",
                      {{"running", std::uint64_t{admission_->running()}},
                       {"waiting", std::uint64_t{admission_->waiting()}}});
    handle(shutdown_event::drain_timeout, "drain timeout");
  });
  server_->begin_drain();
  admission_->drain();
  admission_->on_idle([this] { asio::post(io_, [this] { linger(); }); });
  drain_begun_ = true;
}

/// The last job is done. A proxy in front may not know yet that the worker drains: what it sends meanwhile is
/// answered with 503, which it can try elsewhere, unlike a request that is cut off.
void worker::linger() {
  constexpr std::chrono::milliseconds long_enough{1'000};  // for some health checks
  const auto done = [this] { handle(shutdown_event::idle, "drained"); };
  if (failover_ || server_->connections() == 0) return done();
  drain_timer_.expires_at(std::min(drain_timer_.expiry(), std::chrono::steady_clock::now() + long_enough));
  drain_timer_.async_wait([done](const boost::system::error_code& failed) {
    if (!failed) done();
  });
}

void worker::stop_server() {
  drain_timer_.cancel();
  const bool forced = fsm_.code() != exit_code::ok;
  const auto grace = forced ? grace_when_forced : farewell_limit;
  guard_.arm(grace + teardown_limit, fsm_.code());
  if (failover_ && failover_->leaves) return leave_streams();
  if (failover_ && failover_->link) leave_connections();
  if (!listening_) return post_event(shutdown_event::stopped, "");
  server_->stop(grace, [this] { post_event(shutdown_event::stopped, ""); });
}

exit_code run_worker(const options& opts, log_narrator& narrator, process_guard& guard,
                     std::function<engine::result<options>()> read_again) {
  const auto started_at = clock::now();
  // The worker is destroyed before the last line of the log, so that the line is true.
  const auto code = std::make_unique<worker>(opts, narrator, guard, std::move(read_again))->run();
  narrator.narrate(severity::info, "stopped", "The worker has stopped",
                   {{"exit_code", static_cast<std::int64_t>(code)},
                    {"uptime_seconds", std::chrono::duration<double>(clock::now() - started_at).count()}});
  return code;
}

}  // namespace orcd::app
