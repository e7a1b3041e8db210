// What the holder sees of engines that stop, end or come to rest.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
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
/// A process that was killed has its lock no more, and its sockets until the system has closed what is of its
/// GPU.
constexpr milliseconds usual_end{500};

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

/// Told as a warning only when it lasts: each kill begins so.
void holder::let_taker_wait(client& taker, std::uint32_t room) {
  taker_ = {&taker, room};
  const auto tell = [this](severity level) {
    narrator_.narrate(
        level, "takeover_waits", "An engine has the lock, and the one before has not left",
        {{"engine_id", std::uint64_t{*taker_->engine->engine}}, {"active", std::uint64_t{*active_->engine}}});
  };
  tell(severity::debug);
  taker_timer_.expires_after(usual_end);
  taker_timer_.async_wait([this, tell](error_code failed) {
    if (failed || !taker_ || active_ == nullptr || active_ == taker_->engine) return;
    // What keeps its socket open is no engine.
    if (net::has_ended(active_->process.get())) return drop(*active_, "its process has ended");
    tell(severity::warning);
  });
}

/// An engine that has stopped could take the lock all the same, and serve nobody; or go on later, so that one
/// that answers otherwise counts all the same.
net::report_frame holder::report(const client& to, const net::answer_identity* asked) const {
  net::report_frame out;
  const auto now = steady_clock::now();
  for (const auto& one : clients_) {
    out.engines += one.engine ? 1U : 0U;
    if (!one.standby || &one == &to || net::has_ended(one.process.get())) continue;
    const auto differs = asked == nullptr ? std::nullopt : net::difference(*asked, *one.standby);
    if (differs && out.others++ == 0) out.differs = *differs;
    if (!differs && now - one.beat_at < engine_silence) ++out.standbys;
  }
  if (active_ != nullptr) out.active = *active_->engine;
  out.settled = active_ != nullptr && active_->settled;
  out.sockets = table_.size();
  out.complete = complete_;
  return out;
}

/// What cannot be killed is tried again and again, and told once of each engine. From another PID namespace
/// the kernel lets no signal through, and calls that an invalid argument.
void holder::kill_hanging(client& one, const std::string& what) {
  const bool killed = ::syscall(SYS_pidfd_send_signal, one.process.get(), SIGKILL, nullptr, 0) == 0;
  const int why = killed ? 0 : errno;
  if (why == ESRCH) return;  // it has ended meanwhile
  if (killed) {
    narrator_.narrate(severity::error, "engine_hangs", what + "is killed",
                      {{"engine_id", std::uint64_t{*one.engine}},
                       {"hang_timeout_s", std::uint64_t{opts_.hang_timeout_sec}},
                       {"kills_failed", one.kills_failed}});
  } else if (one.kills_failed++ == 0) {
    narrator_.narrate(
        severity::warning, "engine_not_killed",
        what + "cannot be killed: " + (why == EINVAL ? "it is in another PID namespace" : std::strerror(why)),
        {{"engine_id", std::uint64_t{*one.engine}},
         {"hang_timeout_s", std::uint64_t{opts_.hang_timeout_sec}},
         {"errno", std::int64_t{why}}});
  }
}

/// Such an engine may have been given the lock right before it stopped, and would keep it while nobody
/// serves. One that this holder runs is followed by one that could serve.
void holder::kill_silent_standbys(steady_clock::time_point now) {
  const milliseconds limit(opts_.hang_timeout_sec * 1'000);
  // Where the machine or this process stood still, so did they.
  const bool slept = now - std::exchange(looked_at_, now) > 4 * heart_watch::look_interval;
  if (slept) inactive_since_ = awake_since_ = now;
  if (limit.count() == 0 || now - (active_ == nullptr ? inactive_since_ : awake_since_) < limit) return;
  if (active_ != nullptr && opts_.engines == 0) return;
  for (auto& one : clients_) {
    if (!one.standby || now - one.beat_at < limit) continue;
    kill_hanging(one, "An engine that stands by gave no sign of life and ");
    one.standby.reset();
  }
}

/// An engine that does not move keeps its lock: only its end lets another one serve.
void holder::look_at_hearts() {
  if (active_ != nullptr && active_->heart->hangs(steady_clock::now())) {
    kill_hanging(*active_, "The active engine gave no sign of life and ");
    active_->heart.emplace(milliseconds(opts_.hang_timeout_sec * 1'000), steady_clock::now());
  }
  kill_silent_standbys(steady_clock::now());
  heart_timer_.expires_after(heart_watch::look_interval);
  heart_timer_.async_wait([this](error_code failed) {
    if (!failed) look_at_hearts();
  });
}

}  // namespace orcd::app
