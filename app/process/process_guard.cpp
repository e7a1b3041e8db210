#include "app/process/process_guard.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace orcd::app {
namespace {

/// The process sends it to its own guard, to look at the deadline again. From outside it does nothing else.
constexpr int wake_signal = SIGUSR1;

sigset_t guarded_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&set, number);
  return set;
}

int make_event() {
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw std::system_error(errno, std::generic_category(), "cannot make an event descriptor");
  return event;
}

volatile std::sig_atomic_t last_code = 1;  // NOLINT: a signal handler can reach nothing else

[[noreturn]] void end_process(exit_code code) noexcept {
  // Standard error may be a full pipe that nobody reads: then the alarm ends the write and the process.
  last_code = static_cast<int>(code);
  struct sigaction action {};
  action.sa_handler = [](int) { ::_exit(last_code); };
  ::sigaction(SIGALRM, &action, nullptr);
  constexpr itimerval soon{{}, {0, 100'000}};
  ::setitimer(ITIMER_REAL, &soon, nullptr);
  const std::string_view text = code == exit_code::waking_timeout
                                    ? "worker-orcd: the engine did not come to serve in time; exiting\n"
                                    : "worker-orcd: the shutdown did not finish in time; exiting\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  std::_Exit(static_cast<int>(code));
}

}  // namespace

process_guard::process_guard() : event_(make_event()) {
  for (const int number : {SIGPIPE, SIGXFSZ, SIGALRM}) std::signal(number, SIG_IGN);
  const sigset_t set = guarded_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::system_error& failure) {
    ::close(event_);
    throw std::system_error(failure.code(), "cannot start a thread for signals");
  }
}

process_guard::~process_guard() {
  released_ = true;
  ::pthread_kill(thread_.native_handle(), wake_signal);
  thread_.join();
  ::close(event_);
}

void process_guard::arm(std::chrono::milliseconds limit, exit_code code) noexcept {
  const auto deadline = clock::now() + limit;
  {
    const std::lock_guard lock(mutex_);
    if (deadline_ && deadline >= *deadline_) return;
    deadline_ = deadline;
    code_ = code;
  }
  ::pthread_kill(thread_.native_handle(), wake_signal);
}

void process_guard::allow_stop(std::chrono::milliseconds limit, exit_code code) noexcept {
  const std::lock_guard lock(mutex_);
  if (!deadline_ || policy_.signals() != 1) return;
  deadline_ = clock::now() + limit;
  code_ = code;
  ::pthread_kill(thread_.native_handle(), wake_signal);
}

void process_guard::enter(run_phase phase) noexcept {
  const std::lock_guard lock(mutex_);
  policy_.enter(phase);
}

void process_guard::allow_drain(std::chrono::milliseconds limit) noexcept {
  const std::lock_guard lock(mutex_);
  policy_.allow_drain(limit);
}

signal_counts process_guard::take() noexcept {
  std::uint64_t raised = 0;
  [[maybe_unused]] const auto read = ::read(event_, &raised, sizeof raised);
  return {interrupts_.exchange(0), terminations_.exchange(0), hangups_.exchange(0), hand_overs_.exchange(0)};
}

std::optional<process_guard::clock::duration> process_guard::time_left() noexcept {
  const std::lock_guard lock(mutex_);
  if (!deadline_) return std::nullopt;
  return std::max(*deadline_ - clock::now(), clock::duration::zero());
}

void process_guard::end_if_late() noexcept {
  const std::lock_guard lock(mutex_);
  if (deadline_ && clock::now() >= *deadline_) end_process(code_);
}

void process_guard::watch() {
  ::pthread_setname_np(::pthread_self(), "guard");
  const sigset_t set = guarded_signals();
  while (!released_) {
    int number = 0;
    if (const auto left = time_left()) {
      const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*left);
      const timespec limit{seconds.count(), std::chrono::nanoseconds(*left - seconds).count()};
      number = ::sigtimedwait(&set, nullptr, &limit);
    } else {
      number = ::sigwaitinfo(&set, nullptr);
    }
    if (released_) return;
    if (number > 0) on_signal(number);
    end_if_late();
  }
}

/// Counts the signal before it wakes the reader, so that take() finds it.
void process_guard::on_signal(int number) noexcept {
  switch (number) {
    case SIGINT: interrupts_.fetch_add(1); break;
    case SIGTERM: terminations_.fetch_add(1); break;
    case SIGHUP: hangups_.fetch_add(1); break;
    case SIGUSR2: hand_overs_.fetch_add(1); break;
    default: return;
  }
  if (number == SIGINT || number == SIGTERM) {
    stop_asked_ = true;
    const std::lock_guard lock(mutex_);
    const auto limit = policy_.on_signal(number == SIGINT ? exit_code::interrupted : exit_code::terminated);
    const auto deadline = clock::now() + limit.after;
    if (!deadline_ || deadline < *deadline_) {
      deadline_ = deadline;
      code_ = limit.code;
    }
  }
  constexpr std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(event_, &one, sizeof one);
}

}  // namespace orcd::app
