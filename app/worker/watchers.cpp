#include "app/worker/watchers.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace orcd::app {

namespace asio = boost::asio;
using engine::severity;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds beat_interval{500};
constexpr std::chrono::seconds file_interval{1};
/// A step of the host backend may take many seconds on a small machine; a GPU's may not.
constexpr milliseconds long_step = std::chrono::minutes(2);
constexpr milliseconds short_step = std::chrono::seconds(30);

}  // namespace

watchers::plan watchers::plan_for(const options& opts, bool beats, bool shared_weights) noexcept {
  const bool host = opts.backend == backend_kind::host;
  return {beats, host && !shared_weights, std::chrono::seconds(host ? 0 : opts.residency_check_sec)};
}

watchers::watchers(asio::io_context& io, backend_kind backend, engine::worker_state& state,
                   engine::narrator& narrator, hooks asked)
    : io_(io),
      backend_(backend),
      state_(state),
      narrator_(narrator),
      asked_(std::move(asked)),
      beat_timer_(io),
      progress_timer_(io),
      file_timer_(io),
      residency_timer_(io) {}

void watchers::start(const plan& what) {
  if (plan_) return;
  plan_ = what;
  if (what.beats) beat();
  if (const auto interval = service_manager::watchdog_interval()) {
    const auto half = std::chrono::duration_cast<milliseconds>(*interval) / 2;
    watchdog_.emplace(backend_ == backend_kind::host ? std::max(half, long_step) : half);
    watch_interval_ = half / 2;
  }
  look_again();
}

void watchers::look_again() {
  if (!plan_) return;
  if (plan_->file) watch_file();
  if (plan_->residency.count() != 0) watch_residency();
  if (watchdog_) watch_progress();
}

bool watchers::are_moving() const noexcept {
  return beats_->are_younger_than(backend_ == backend_kind::host ? long_step : short_step);
}

/// A sign of life of the io thread, and one asked of the GPU thread.
void watchers::beat() {
  beats_->of_io();
  asked_.on_gpu_thread([beats = beats_] { beats->of_gpu(); });
  asked_.moved(beats_->gpu_progress());
  beat_timer_.expires_after(beat_interval);
  beat_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) beat();
  });
}

void watchers::watch_progress() {
  const auto [feed, ping] = watchdog_->tick(std::chrono::steady_clock::now(), *pings_answered_);
  if (feed) asked_.feed();
  if (ping) asked_.on_gpu_thread([answered = pings_answered_] { answered->fetch_add(1); });
  progress_timer_.expires_after(watch_interval_);
  progress_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_progress();
  });
}

/// A file that was cut short or written to would give wrong tokens, so that the worker ends instead. Jobs end
/// with that error, like those that a step finds it for, and not because the worker is ending.
void watchers::watch_file() {
  if (const auto intact = asked_.check_file(); !intact) return asked_.file_damaged(intact.error());
  file_timer_.expires_after(file_interval);
  file_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_file();
  });
}

/// Checks on the GPU thread, so that the answer is about a moment between two steps (M0-W-1012).
void watchers::watch_residency() {
  // That thread may outlive this object, but not the io_context what it finds.
  asked_.on_gpu_thread([this, &io = io_, audit = asked_.audit] {
    auto failures = audit();
    if (failures.empty()) return;
    asio::post(io, [this, failures = std::move(failures)] { on_not_resident(failures); });
  });
  residency_timer_.expires_after(plan_->residency);
  residency_timer_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed) watch_residency();
  });
}

/// Reports once: memory that has left VRAM does not come back, and one critical event is enough.
void watchers::on_not_resident(const std::vector<std::string>& failures) {
  residency_timer_.cancel();
  if (!state_.resident.exchange(false)) return;
  state_.fail(engine::health_cause::not_resident);
  std::string list;
  for (const auto& failure : failures) list += (list.empty() ? "" : "; ") + failure;
  narrator_.narrate(
      severity::critical, "not_resident", "The model is no longer in VRAM: " + list,
      {{"code", engine::code_name(engine::errc::cuda_error)}, {"failures", std::uint64_t{failures.size()}}});
}

}  // namespace orcd::app
