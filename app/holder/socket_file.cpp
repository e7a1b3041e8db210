#include "app/holder/socket_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "app/holder/shared_files.hpp"

namespace orcd::app {
namespace {

using engine::error;
using engine::result;
using net::file_descriptor;

constexpr int waiting_max = 128;

/// Whether a process listens at the socket file.
bool is_live(const sockaddr_un& address) {
  const file_descriptor probe(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int failed = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  return failed == 0 || errno == EAGAIN;
}

std::optional<error> clear_path(const std::string& path, const sockaddr_un& address) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0)
    return errno == ENOENT ? std::nullopt : std::optional(path_refusal(path));
  if (!S_ISSOCK(facts.st_mode)) return path_refusal(path, "is a file that is no socket");
  if (is_live(address)) return path_refusal(path, "another process listens there");
  if (::unlink(path.c_str()) != 0) return path_refusal(path);
  return std::nullopt;
}

}  // namespace

error path_refusal(const std::string& path, const std::string& why) {
  return {engine::errc::worker_start_failed, "'" + path + "': " + why, "failover-dir"};
}

error path_refusal(const std::string& path) {
  const int why = errno;
  error out = path_refusal(path, std::strerror(why));
  out.code = start_errc(why);
  return out;
}

std::optional<error> socket_file::check_length(const std::string& path) {
  constexpr auto bytes_max = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() <= bytes_max) return std::nullopt;
  return path_refusal(path, "a path of " + std::to_string(path.size()) +
                                " bytes, the limit of a socket's is " + std::to_string(bytes_max));
}

result<socket_file> socket_file::listen(const std::string& path, gid_t group) {
  socket_file out;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (auto wrong = check_length(path)) return *wrong;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (auto wrong = clear_path(path, address)) return *wrong;
  out.listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!out.listener_) return path_refusal(path);
  if (::bind(out.listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return path_refusal(path);
  }
  out.path_ = path;
  if (::chmod(path.c_str(), group == no_group ? 0600 : 0660) != 0) return path_refusal(path);
  if (group != no_group && ::chown(path.c_str(), static_cast<uid_t>(-1), group) != 0) {
    return path_refusal(path);
  }
  if (::listen(out.listener_.get(), waiting_max) != 0) return path_refusal(path);
  return out;
}

socket_file::~socket_file() {
  // Moved from, it has no listener.
  if (listener_ && !path_.empty()) ::unlink(path_.c_str());
}

}  // namespace orcd::app
