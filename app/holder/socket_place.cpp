#include "app/holder/socket_place.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "app/option_table.hpp"
#include "net/failover/held_socket.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using net::file_descriptor;

constexpr auto no_group = static_cast<gid_t>(-1);
constexpr int waiting_max = 128;

error refusal(const std::string& path, const std::string& why) {
  return {errc::worker_start_failed, "'" + path + "': " + why, "failover-dir"};
}

error refusal(const std::string& path) {
  return refusal(path, std::strerror(errno));
}

result<gid_t> find_group(const std::string& name) {
  if (name.empty()) return no_group;
  if (const auto number = parse_unsigned(name); number && *number < no_group)
    return static_cast<gid_t>(*number);
  if (const group* const found = ::getgrnam(name.c_str())) return found->gr_gid;
  return error(errc::worker_start_failed, "--group: there is no group '" + name + "'", "group");
}

/// A folder that is made gets the right mode; one that is there must not let strangers put files into it.
std::optional<error> prepare_folder(const std::string& dir, gid_t group) {
  const mode_t mode = group == no_group ? 0700 : 0770;
  if (::mkdir(dir.c_str(), mode) == 0) {
    if (::chmod(dir.c_str(), mode) != 0) return refusal(dir);
    if (group != no_group && ::chown(dir.c_str(), static_cast<uid_t>(-1), group) != 0) return refusal(dir);
  } else if (errno != EEXIST) {
    return refusal(dir);
  }
  struct stat facts {};
  if (::stat(dir.c_str(), &facts) != 0) return refusal(dir);
  if (!S_ISDIR(facts.st_mode)) return refusal(dir, "is no folder");
  if (facts.st_uid != ::geteuid()) return refusal(dir, "belongs to another user");
  const bool open_to_group = (facts.st_mode & S_IWGRP) != 0 && facts.st_gid != group;
  if ((facts.st_mode & S_IWOTH) != 0 || open_to_group) return refusal(dir, "others may write to it");
  return std::nullopt;
}

/// Whether a process listens at the socket file.
bool is_live(const sockaddr_un& address) {
  const file_descriptor probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int failed = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return failed == 0 || errno == EAGAIN;
}

std::optional<error> clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0)
    return errno == ENOENT ? std::nullopt : std::optional(refusal(path));
  if (!S_ISSOCK(facts.st_mode)) return refusal(path, "is a file that is no socket");
  if (is_live(address)) return refusal(path, "another process listens there");
  if (::unlink(path.c_str()) != 0) return refusal(path);
  return std::nullopt;
}

/// One holder a folder: without it two that start at once could each take the other's socket file away.
result<file_descriptor> take_lock(const std::string& dir) {
  const auto path = dir + "/holder.lock";
  file_descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return refusal(path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return refusal(path, "another holder has this folder");
  return refusal(path);
}

}  // namespace

result<socket_place> socket_place::take(const std::string& dir, const std::string& group) {
  socket_place out;
  const auto found = find_group(group);
  if (!found) return found.error();
  out.rule_ = {::geteuid(), *found};
  const auto path = net::holder_socket_path(dir);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return refusal(path, "a path of " + std::to_string(path.size()) + " bytes, the limit of a socket's is " +
                             std::to_string(sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (auto wrong = prepare_folder(dir, *found)) return *wrong;
  auto lock = take_lock(dir);
  if (!lock) return lock.error();
  out.lock_ = std::move(*lock);
  if (auto wrong = clear_path(path, address)) return *wrong;
  out.listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.listener_) return refusal(path);
  if (::bind(out.listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return refusal(path);
  }
  out.path_ = path;
  if (::chmod(path.c_str(), *found == no_group ? 0600 : 0660) != 0) return refusal(path);
  if (*found != no_group && ::chown(path.c_str(), static_cast<uid_t>(-1), *found) != 0) return refusal(path);
  if (::listen(out.listener_.get(), waiting_max) != 0) return refusal(path);
  return out;
}

socket_place::~socket_place() {
  // Moved from, it has no listener. The lock is still held, so that the file is this holder's.
  if (listener_ && !path_.empty()) ::unlink(path_.c_str());
}

}  // namespace orcd::app
