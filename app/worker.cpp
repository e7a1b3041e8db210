#include "app/worker.hpp"

#include <boost/asio/post.hpp>
#include <cstdlib>
#include <memory>

#include "app/worker_parts.hpp"

namespace orcd::app {
namespace {

namespace asio = boost::asio;
using engine::error;
using engine::lifecycle;
using engine::severity;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr milliseconds grace_after_drain{2'000};
constexpr milliseconds grace_when_forced{500};
/// What freeing VRAM and joining threads may take (M0-W-1630 allows a second).
constexpr milliseconds teardown_limit{5'000};

}  // namespace

worker::~worker() {
  guard_.arm(teardown_limit, fsm_.code());
  cancel_load_ = true;
  digest_.request_stop();
  if (!gpu_thread_) return;
  gpu_thread_->stop();
  // What a GPU holds is given back by the thread that took it; nothing uses the device after stop().
  gpu_thread_->post([this] { device_.reset(); });
}

exit_code worker::run() {
  await_signal();
  narrate_startup();
  if (auto failure = open()) {
    fail_start(*failure);
    return exit_code::failure;
  }
  start_digest();
  start_load();
  io_.run();
  return fsm_.code();
}

void worker::await_signal() {
  signals_.async_wait([this](const boost::system::error_code& failed, int number) {
    if (failed) return;
    await_signal();
    if (number == SIGTERM) {
      handle(shutdown_event::sigterm, "SIGTERM");
    } else {
      handle(shutdown_event::sigint, "SIGINT");
    }
  });
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

/// The host backend reads its weights from the mapped file all its life; a file that was cut short or
/// written to under it gives wrong tokens, so the worker ends instead.
void worker::watch_file() {
  constexpr std::chrono::seconds interval{5};
  if (const auto intact = model_->file.check_intact(); !intact) return on_fatal(intact.error());
  file_timer_.expires_after(interval);
  file_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_file();
  });
}

/// The GPU thread asks, so that the answer is about a moment between two steps (M0-W-1012).
void worker::watch_residency() {
  gpu_thread_->post([this] {
    auto failures = device_->audit();
    if (failures.empty()) return;
    asio::post(io_, [this, failures = std::move(failures)] { on_not_resident(failures); });
  });
  residency_timer_.expires_after(std::chrono::seconds(opts_.residency_check_sec));
  residency_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_residency();
  });
}

/// Once: memory that left VRAM does not come back, and one critical event is enough.
void worker::on_not_resident(const std::vector<std::string>& failures) {
  residency_timer_.cancel();
  if (!state_.resident.exchange(false)) return;
  state_.health = engine::health_status::unhealthy;
  std::string list;
  for (const auto& failure : failures) list += (list.empty() ? "" : "; ") + failure;
  narrator_.narrate(
      severity::critical, "not_resident", "The model is no longer in VRAM: " + list,
      {{"code", engine::code_name(engine::errc::cuda_error)}, {"failures", std::uint64_t{failures.size()}}});
}

/// On any thread; from the GPU thread after every job got its error event.
void worker::on_fatal(const error& why, exit_code code) {
  state_.health = engine::health_status::unhealthy;
  state_.set(lifecycle::failed);
  narrator_.narrate(severity::critical, "error", "The worker cannot go on: " + why.message,
                    {{"code", engine::code_name(why.code)}, {"phase", std::string_view("serving")}});
  service_.failed(why.message);
  asio::post(io_, [this, code] {
    fsm_.set_failure_code(code);
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
      guard_.arm(teardown_limit, fsm_.code());
      io_.stop();
      return;
    case shutdown_action::begin_drain: return begin_drain(reason);
    case shutdown_action::stop_server: return stop_server();
    case shutdown_action::finish: io_.stop(); return;
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
  admission_->on_idle([this] { post_event(shutdown_event::idle, "drained"); });
}

void worker::stop_server() {
  drain_timer_.cancel();
  const bool forced = fsm_.code() != exit_code::ok;
  const auto grace = forced ? grace_when_forced : grace_after_drain;
  guard_.arm(grace + teardown_limit, fsm_.code());
  if (!listening_) return post_event(shutdown_event::stopped, "");
  server_->stop(grace, [this] { post_event(shutdown_event::stopped, ""); });
}

exit_code run_worker(const options& opts, log_narrator& narrator, exit_guard& guard) {
  const auto started_at = clock::now();
  // Taken down before the last line of the log, so that the line is true.
  const auto code = std::make_unique<worker>(opts, narrator, guard)->run();
  narrator.narrate(severity::info, "stopped", "The worker has stopped",
                   {{"exit_code", static_cast<std::int64_t>(code)},
                    {"uptime_seconds", std::chrono::duration<double>(clock::now() - started_at).count()}});
  return code;
}

}  // namespace orcd::app
