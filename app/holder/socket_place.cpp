#include "app/holder/socket_place.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "app/options/option_table.hpp"
#include "net/failover/held_socket.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using net::file_descriptor;

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
    if (::chmod(dir.c_str(), mode) != 0) return path_refusal(dir);
    if (group != no_group && ::chown(dir.c_str(), static_cast<uid_t>(-1), group) != 0)
      return path_refusal(dir);
  } else if (errno != EEXIST) {
    return path_refusal(dir);
  }
  struct stat facts {};
  if (::stat(dir.c_str(), &facts) != 0) return path_refusal(dir);
  if (!S_ISDIR(facts.st_mode)) return path_refusal(dir, "is no folder");
  if (facts.st_uid != ::geteuid()) return path_refusal(dir, "belongs to another user");
  const bool open_to_group = (facts.st_mode & S_IWGRP) != 0 && facts.st_gid != group;
  if ((facts.st_mode & S_IWOTH) != 0 || open_to_group) return path_refusal(dir, "others may write to it");
  return std::nullopt;
}

/// One holder a folder: without it two that start at once could each take the other's socket file away.
result<file_descriptor> take_lock(const std::string& dir) {
  const auto path = dir + "/holder.lock";
  file_descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return path_refusal(path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return path_refusal(path, "another holder has this folder");
  return path_refusal(path);
}

}  // namespace

result<socket_place> socket_place::take(const std::string& dir, const std::string& group) {
  const auto found = find_group(group);
  if (!found) return found.error();
  const auto path = net::holder_socket_path(dir);
  if (auto wrong = socket_file::check_length(path)) return *wrong;
  if (auto wrong = prepare_folder(dir, *found)) return *wrong;
  auto lock = take_lock(dir);
  if (!lock) return lock.error();
  auto socket = socket_file::listen(path, *found);
  if (!socket) return socket.error();
  return socket_place({::geteuid(), *found}, std::move(*lock), std::move(*socket));
}

}  // namespace orcd::app
