#include "net/failover/flock_lock.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace orcd::net {
namespace {

namespace asio = boost::asio;
using engine::errc;
using engine::error;
using engine::result;

/// The kernel closes the descriptors of a killed process from the highest number down, and those of a GPU
/// driver take it tens of milliseconds: the lock is to be free before them.
constexpr int descriptor_min = 900;
constexpr std::size_t identity_bytes_max = 256;

error refusal(const std::string& path, const std::string& why) {
  return {errc::worker_start_failed, "failover lock '" + path + "': " + why, "failover-lock-path"};
}

error refusal(const std::string& path) {
  return refusal(path, std::strerror(errno));
}

/// File systems on which a lock may outlive its holder, or is not seen by everybody.
bool is_of_a_network(int descriptor) noexcept {
  constexpr std::array<std::uint32_t, 4> refused{NFS_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
                                                 FUSE_SUPER_MAGIC};
  struct statfs facts {};
  if (::fstatfs(descriptor, &facts) != 0) return false;
  for (const auto magic : refused) {
    if (static_cast<std::uint32_t>(facts.f_type) == magic) return true;
  }
  return false;
}

/// Whether the descriptor's file is the one that another engine would open now. If it was deleted or
/// replaced, two engines could each hold a lock.
bool is_file_at(const std::string& path, int descriptor) noexcept {
  struct stat held {};
  struct stat there {};
  return ::fstat(descriptor, &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
         held.st_ino == there.st_ino && held.st_dev == there.st_dev;
}

void write_identity(int descriptor, const std::string& identity) noexcept {
  // For people who look at it: a full disk is no reason not to serve.
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const auto written = ::pwrite(descriptor, identity.data(), identity.size(), 0);
}

/// The signal that takes the waiting thread out of flock(2): a handler without SA_RESTART.
int waking_signal() noexcept {
  return SIGRTMIN;
}

void install_waking_signal() noexcept {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  ::sigaction(waking_signal(), &action, nullptr);
}

void unblock_waking_signal() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, waking_signal());
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace

flock_lock::flock_lock(asio::io_context& io, flock_config config)
    : io_(io), config_(std::move(config)), timer_(io) {}

flock_lock::~flock_lock() {
  release();
}

/// The lock file on a high descriptor; on the one that it got where the limit of descriptors is below.
result<int> flock_lock::open_high() const {
  const int low = ::open(config_.path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (low < 0) return refusal(config_.path);
  struct stat facts {};
  const bool plain = ::fstat(low, &facts) == 0 && S_ISREG(facts.st_mode);
  if (!plain || is_of_a_network(low)) {
    ::close(low);
    return refusal(config_.path, plain ? "is on a network file system" : "is no plain file");
  }
  const int high = ::fcntl(low, F_DUPFD_CLOEXEC, descriptor_min);
  if (high < 0) return low;
  ::close(low);
  return high;
}

result<void> flock_lock::check() const {
  const auto opened = open_high();
  if (!opened) return opened.error();
  ::close(*opened);
  return {};
}

bool flock_lock::is_taken() const noexcept {
  const int descriptor = ::open(config_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool taken = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(descriptor);
  return taken;
}

void flock_lock::acquire(granted_handler granted) {
  install_waking_signal();
  granted_ = std::move(granted);
  self_ = std::make_shared<flock_lock*>(this);
  stop_ = false;
  ended_ = false;
  thread_ = std::thread([this, self = std::weak_ptr<flock_lock*>(self_)] {
    unblock_waking_signal();
    wait(self);
    ended_ = true;
  });
}

/// True once the descriptor's file is locked; false when nobody waits for it any more.
result<bool> flock_lock::lock(int descriptor) noexcept {
  // Slept in pieces: a signal does not end this_thread::sleep_for().
  constexpr std::chrono::milliseconds piece{5};
  const bool polls = config_.poll.count() > 0;
  while (!stop_) {
    if (::flock(descriptor, polls ? LOCK_EX | LOCK_NB : LOCK_EX) == 0) return true;
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return refusal(config_.path);
    const auto next = std::chrono::steady_clock::now() + config_.poll;
    while (!stop_ && std::chrono::steady_clock::now() < next) {
      std::this_thread::sleep_for(std::min(piece, config_.poll));
    }
  }
  return false;
}

/// Posts what became of it. Nobody is told after release().
void flock_lock::answer(const std::weak_ptr<flock_lock*>& self, result<void> granted) {
  asio::post(io_, [self, granted = std::move(granted)] {
    const auto lock = self.lock();
    if (!lock) return;
    if (granted) (*lock)->watch_file();
    const auto handler = (*lock)->granted_;
    handler(granted);
  });
}

/// On the waiting thread.
void flock_lock::wait(const std::weak_ptr<flock_lock*>& self) {
  while (!stop_) {
    const auto opened = open_high();
    if (!opened) return answer(self, opened.error());
    const int descriptor = *opened;
    const auto locked = lock(descriptor);
    if (locked && *locked && is_file_at(config_.path, descriptor)) {
      write_identity(descriptor, config_.identity);
      held_ = descriptor;
      since_ = std::chrono::steady_clock::now().time_since_epoch().count();
      return answer(self, {});
    }
    ::close(descriptor);
    if (!locked) return answer(self, locked.error());
  }
}

/// A lock whose file was deleted or replaced keeps nobody else out.
void flock_lock::watch_file() {
  timer_.expires_after(config_.watch);
  timer_.async_wait(
      [this, self = std::weak_ptr<flock_lock*>(self_)](const boost::system::error_code& failed) {
        if (failed || self.expired()) return;
        if (is_file_at(config_.path, held_)) return watch_file();
        if (lost_) lost_(refusal(config_.path, "was deleted or replaced while it was held"));
      });
}

/// The signal may come before the thread is in the kernel, so that it is sent until it has helped.
void flock_lock::stop_waiting() noexcept {
  if (!thread_.joinable()) return;
  stop_ = true;
  while (!ended_) {
    ::pthread_kill(thread_.native_handle(), waking_signal());
    ::usleep(500);
  }
  thread_.join();
}

void flock_lock::release() noexcept {
  self_.reset();
  stop_waiting();
  timer_.cancel();
  since_ = 0;
  if (const int descriptor = held_.exchange(-1); descriptor >= 0) ::close(descriptor);
}

std::chrono::nanoseconds flock_lock::held_for() const noexcept {
  const auto since = since_.load();
  if (since == 0) return {};
  return std::chrono::steady_clock::now().time_since_epoch() - std::chrono::steady_clock::duration(since);
}

std::string flock_lock::owner() const {
  const int descriptor = ::open(config_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return {};
  std::array<char, identity_bytes_max> text{};
  const auto bytes = ::read(descriptor, text.data(), text.size());
  ::close(descriptor);
  std::string name(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  const auto end = name.find_last_not_of(" \t\r\n");
  name.erase(end == std::string::npos ? 0 : end + 1);
  return name;
}

}  // namespace orcd::net
