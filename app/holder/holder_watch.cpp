// What the holder sees of engines that stop, end or come to rest.
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "app/holder/holder.hpp"
#include "net/failover/peer.hpp"

namespace orcd::app {
namespace {

using boost::system::error_code;
using engine::severity;
using net::file_descriptor;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The system takes some tens of milliseconds to end a process that used a GPU.
constexpr milliseconds rest_interval{2};
/// Engines give a sign of life twice a second.
constexpr milliseconds standby_silence{5'000};

}  // namespace

/// Tells the active engine when those before it are gone; one whose end cannot be seen is never.
void holder::look_for_rest() {
  if (active_ == nullptr) return;
  std::erase_if(leaving_, [](const file_descriptor& one) { return one && net::has_ended(one.get()); });
  if (leaving_.empty() && steady_clock::now() >= rest_not_before_) {
    return active_->socket->send({0, net::rest_frame{}});
  }
  rest_timer_.expires_after(rest_interval);
  rest_timer_.async_wait([this](error_code failed) {
    if (!failed) look_for_rest();
  });
}

/// An engine that has stopped could take the lock all the same, and serve nobody; or go on later, so that one
/// of another maker counts all the same.
net::report_frame holder::report(const client& to, std::optional<std::uint64_t> maker) const {
  net::report_frame out;
  const auto now = steady_clock::now();
  for (const auto& one : clients_) {
    out.engines += one.engine ? 1U : 0U;
    if (!one.maker || &one == &to || net::has_ended(one.process.get())) continue;
    const bool wanted = !maker || *one.maker == *maker;
    if (!wanted) ++out.others;
    if (wanted && now - one.beat_at < standby_silence) ++out.standbys;
  }
  if (active_ != nullptr) out.active = *active_->engine;
  out.sockets = table_.size();
  out.complete = complete_;
  return out;
}

/// Such an engine may have been given the lock right before it stopped, and would keep it while nobody
/// serves.
void holder::kill_silent_standbys(steady_clock::time_point now) {
  const milliseconds limit(opts_.hang_timeout_sec * 1'000);
  // Where the machine or this process stood still, so did they.
  const bool slept = now - std::exchange(looked_at_, now) > 4 * heart_watch::look_interval;
  if (slept) inactive_since_ = now;
  if (active_ != nullptr || limit.count() == 0 || now - inactive_since_ < limit) return;
  for (auto& one : clients_) {
    if (!one.maker || now - one.beat_at < limit) continue;
    narrator_.narrate(severity::error, "engine_hangs",
                      "Nobody serves, and an engine that stands by gave no sign of life and is killed",
                      {{"engine_id", std::uint64_t{*one.engine}},
                       {"hang_timeout_s", std::uint64_t{opts_.hang_timeout_sec}}});
    ::syscall(SYS_pidfd_send_signal, one.process.get(), SIGKILL, nullptr, 0);
    one.maker.reset();
  }
}

/// An engine that does not move keeps its lock: only its end lets another one serve.
void holder::look_at_hearts() {
  if (active_ != nullptr && active_->heart->hangs(steady_clock::now())) {
    narrator_.narrate(severity::error, "engine_hangs", "The active engine gave no sign of life and is killed",
                      {{"engine_id", std::uint64_t{*active_->engine}},
                       {"hang_timeout_s", std::uint64_t{opts_.hang_timeout_sec}}});
    ::syscall(SYS_pidfd_send_signal, active_->process.get(), SIGKILL, nullptr, 0);
    active_->heart.emplace(milliseconds(opts_.hang_timeout_sec * 1'000), steady_clock::now());
  }
  kill_silent_standbys(steady_clock::now());
  heart_timer_.expires_after(heart_watch::look_interval);
  heart_timer_.async_wait([this](error_code failed) {
    if (!failed) look_at_hearts();
  });
}

}  // namespace orcd::app
