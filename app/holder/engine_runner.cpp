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
#include <cstring>
#include <string_view>

extern char** environ;

namespace orcd::app {

namespace {

using boost::system::error_code;
using orcd::engine::severity;
using std::chrono::milliseconds;

constexpr milliseconds look_interval{200};

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
  sigaddset(&signals, SIGPIPE);
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
  out.insert(out.end(), opts_.engine_options.begin(), opts_.engine_options.end());
  for (const std::string& word :
       {std::string("--failover-dir"), opts_.dir, std::string("--engine-id"), std::to_string(number),
        std::string("--host"), opts_.host, std::string("--port"), std::to_string(opts_.port),
        std::string("--holder"), std::string("require")}) {
    out.push_back(word);
  }
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
  if (hopeless && !other_lives) return end_all(exit_code::usage);
  if (ending_) return await_end();
  const auto ran = std::chrono::duration_cast<milliseconds>(clock::now() - one.started);
  start_later(one, one.policy.after(ran));
}

void engine_runner::stop() {
  end_all(exit_code::ok);
}

void engine_runner::end_all(exit_code code) {
  if (!ending_) code_ = code;
  ending_ = true;
  for (auto& one : engines_) {
    one.timer.cancel();
    const int pidfd = one.pid > 0 ? one.process.native_handle() : told_.process_of(one.number);
    if (pidfd >= 0) send_signal(pidfd, SIGTERM);
  }
  await_end();
}

/// Engines end within the time that their options say, and one that hangs while it serves is killed.
void engine_runner::await_end() {
  const bool runs = std::any_of(engines_.begin(), engines_.end(), [this](const engine& one) {
    return one.pid > 0 || told_.process_of(one.number) >= 0;
  });
  if (!runs) return told_.ended(code_);
  end_timer_.expires_after(look_interval);
  end_timer_.async_wait([this](error_code failed) {
    if (!failed) await_end();
  });
}

}  // namespace orcd::app
