#include "app/holder/engine_runner.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

extern char** environ;

namespace orcd::app {

namespace {

using boost::system::error_code;
using orcd::engine::severity;
using std::chrono::milliseconds;

constexpr milliseconds look_interval{200};
/// For engines without streams: one that loads has given up before.
constexpr milliseconds end_limit{10'000};

/// The engines' program stands beside the holder's.
std::string engine_program() {
  std::string self(4'096, '\0');
  const auto length = ::readlink("/proc/self/exe", self.data(), self.size());
  self.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return self.substr(0, self.rfind('/') + 1) + "worker-orcd";
}

/// The environment without what the service manager wants of the holder alone.
std::vector<char*> environment_of_engines() {
  std::vector<char*> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (text.substr(0, 14) != "NOTIFY_SOCKET=" && text.substr(0, 9) != "WATCHDOG_") out.push_back(*variable);
  }
  out.push_back(nullptr);
  return out;
}

/// The engines' system port, as their environment has it for all of them.
std::string_view system_port_variable() noexcept {
  for (const char* const name : {"WORKER_ORCD_SYSTEM_PORT", "DYN_SYSTEM_PORT"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

/// Returns the pid, or minus the error. Signals are as a shell would leave them.
pid_t spawn(std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto environment = environment_of_engines();
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  for (const int number : {SIGPIPE, SIGXFSZ, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) {
    sigaddset(&signals, number);
  }
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  // In a group of its own a terminal's Ctrl-C does not reach it beside the holder's own signal, which would
  // be the second and end its streams.
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int failed =
      ::posix_spawn(&pid, arguments[0], nullptr, &attributes, arguments.data(), environment.data());
  ::posix_spawnattr_destroy(&attributes);
  return failed == 0 ? pid : -failed;
}

void send_signal(int pidfd, int signal) noexcept {
  ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
}

}  // namespace

engine_runner::engine_runner(boost::asio::io_context& io, const holder_options& opts,
                             orcd::engine::narrator& narrator, calls told)
    : opts_(opts), narrator_(narrator), told_(std::move(told)), end_timer_(io) {
  for (std::uint32_t number = 0; number < opts.engines; ++number) engines_.emplace_back(io).number = number;
}

engine_runner::~engine_runner() = default;

void engine_runner::start(milliseconds after) {
  for (auto& one : engines_) start_later(one, after);
}

std::vector<std::string> engine_runner::arguments_of(std::uint32_t number) const {
  std::vector<std::string> out{engine_program()};
  for (auto& word : engine_arguments(opts_.of_engines(), number, system_port_variable()))
    out.push_back(std::move(word));
  return out;
}

void engine_runner::start_later(engine& one, milliseconds after) {
  one.timer.expires_after(after);
  one.timer.async_wait([this, &one](error_code failed) {
    if (failed || ending_) return;
    // Another holder has started it.
    if (told_.process_of(one.number) >= 0) return start_later(one, look_interval);
    start_now(one);
  });
}

void engine_runner::start_now(engine& one) {
  auto words = arguments_of(one.number);
  const pid_t pid = spawn(words);
  const int pidfd = pid > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)) : -1;
  if (pidfd < 0) {
    const std::string why = std::strerror(pid < 0 ? -pid : errno);
    narrator_.narrate(severity::error, "error", "An engine cannot be started: " + why,
                      {{"engine_id", std::uint64_t{one.number}}, {"program", std::string_view(words[0])}});
    // Without a pidfd its end would not be seen.
    if (pid > 0 && ::kill(pid, SIGKILL) == 0) ::waitpid(pid, nullptr, 0);
    return start_later(one, one.policy.after(milliseconds(0)));
  }
  one.pid = pid;
  one.started = clock::now();
  one.process.assign(pidfd);
  narrator_.narrate(severity::info, "engine_started", "An engine was started",
                    {{"engine_id", std::uint64_t{one.number}}, {"pid", std::int64_t{pid}}});
  one.process.async_wait(boost::asio::posix::stream_descriptor::wait_read, [this, &one](error_code failed) {
    if (!failed) on_end(one);
  });
}

void engine_runner::on_end(engine& one) {
  int status = 0;
  ::waitpid(one.pid, &status, 0);
  one.pid = -1;
  one.process.close();
  const bool killed = WIFSIGNALED(status);
  const int number = killed ? WTERMSIG(status) : WEXITSTATUS(status);
  const bool hopeless = !killed && number == static_cast<int>(exit_code::usage);
  narrator_.narrate(
      killed || number != 0 ? severity::warning : severity::info, "engine_ended", "An engine has ended",
      {{"engine_id", std::uint64_t{one.number}}, {killed ? "signal" : "exit_code", std::int64_t{number}}});
  // Beside an engine that could start, one that cannot is no reason to end what serves.
  const bool other_lives = std::any_of(engines_.begin(), engines_.end(), [&](const engine& other) {
    return other.number != one.number && told_.process_of(other.number) >= 0;
  });
  if (hopeless && !other_lives) {
    if (!ending_) code_ = exit_code::usage;
    return end_all();
  }
  if (ending_) return await_end();
  const auto ran = std::chrono::duration_cast<milliseconds>(clock::now() - one.started);
  start_later(one, one.policy.after(ran));
}

void engine_runner::stop() {
  if (!ending_) {
    const auto active = told_.active();
    if (active && *active < engines_.size()) last_ = active;
  } else {
    last_is_asked_ = true;
  }
  end_all();
}

int engine_runner::process_of(engine& one) const {
  return one.pid > 0 ? one.process.native_handle() : told_.process_of(one.number);
}

void engine_runner::ask_to_end(engine& one) const {
  const int pidfd = process_of(one);
  if (pidfd >= 0) send_signal(pidfd, SIGTERM);
}

void engine_runner::end_all() {
  if (!std::exchange(ending_, true)) kill_at_ = clock::now() + end_limit;
  for (auto& one : engines_) {
    one.timer.cancel();
    if (one.number != last_ || last_is_asked_) ask_to_end(one);
  }
  await_end();
}

/// One that serves ends within the time that its options say; what hangs then is killed for that.
void engine_runner::await_end() {
  const auto runs = [this](engine& one) { return process_of(one) >= 0; };
  if (std::none_of(engines_.begin(), engines_.end(), runs)) return told_.ended(code_);
  if (clock::now() >= kill_at_) kill_late();
  const bool others_run = std::any_of(engines_.begin(), engines_.end(),
                                      [&](engine& one) { return one.number != last_ && runs(one); });
  if (last_ && !others_run && !std::exchange(last_is_asked_, true)) ask_to_end(engines_[*last_]);
  end_timer_.expires_after(look_interval);
  end_timer_.async_wait([this](error_code failed) {
    if (!failed) await_end();
  });
}

/// Those that have had nothing to finish. The killed ones are gone a moment later.
void engine_runner::kill_late() {
  kill_at_ = clock::time_point::max();
  for (auto& one : engines_) {
    const int pidfd = process_of(one);
    if (pidfd < 0 || one.number == last_ || one.number == told_.active()) continue;
    narrator_.narrate(severity::error, "engine_hangs",
                      "An engine that does not serve did not end, and is killed",
                      {{"engine_id", std::uint64_t{one.number}}});
    send_signal(pidfd, SIGKILL);
  }
}

}  // namespace orcd::app
