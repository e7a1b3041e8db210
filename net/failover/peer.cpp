#include "net/failover/peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

#include "net/failover/file_descriptor.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr auto no_group = static_cast<gid_t>(-1);
/// As many as a process can have (NGROUPS_MAX).
constexpr std::size_t groups_max = 65'536;

std::optional<ucred> credentials_of(int socket) noexcept {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return peer;
}

/// Empty where the kernel does not tell them.
std::vector<gid_t> groups_of(int socket) {
  std::vector<gid_t> out(64);
  for (;;) {
    auto bytes = static_cast<socklen_t>(out.size() * sizeof(gid_t));
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, out.data(), &bytes) == 0) {
      out.resize(bytes / sizeof(gid_t));
      return out;
    }
    if (errno != ERANGE || out.size() >= groups_max) return {};
    out.resize(groups_max);
  }
}

}  // namespace

bool is_allowed(uid_t user, gid_t group, std::span<const gid_t> others, const peer_rule& rule) noexcept {
  if (user == rule.user) return true;
  if (rule.group == no_group) return false;
  return group == rule.group || std::find(others.begin(), others.end(), rule.group) != others.end();
}

bool is_allowed(int socket, const peer_rule& rule) {
  const auto peer = credentials_of(socket);
  return peer && is_allowed(peer->uid, peer->gid, groups_of(socket), rule);
}

std::optional<long> process_in(std::string_view fdinfo) noexcept {
  constexpr std::string_view key = "\nPid:";
  auto at = fdinfo.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  at = fdinfo.find_first_not_of(" \t", at + key.size());
  if (at == std::string_view::npos) return std::nullopt;
  long number = 0;
  const auto read = std::from_chars(fdinfo.data() + at, fdinfo.data() + fdinfo.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

bool is_number_of(pid_t peer, std::optional<long> process) noexcept {
  return process && *process == peer;
}

namespace {

/// Nullopt where there is no /proc to ask; else what it says of a descriptor.
std::optional<std::string> facts_of(int descriptor) {
  const auto path = "/proc/self/fdinfo/" + std::to_string(descriptor);
  const file_descriptor facts(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!facts) return errno == ENOENT ? std::nullopt : std::optional<std::string>("");
  std::array<char, 1'024> text{};
  const auto bytes = ::read(facts.get(), text.data(), text.size());
  return std::string(text.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
}

}  // namespace

bool is_own_pidfd(int socket, int pidfd) {
  const auto peer = credentials_of(socket);
  if (!peer) return false;
  const auto facts = facts_of(pidfd);
  return !facts || is_number_of(peer->pid, process_in(*facts));
}

std::optional<std::uint32_t> process_number(int pidfd) {
  const auto facts = facts_of(pidfd);
  const auto number = facts ? process_in(*facts) : std::nullopt;
  if (!number || *number <= 0) return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

bool has_ended(int pidfd) noexcept {
  pollfd one{pidfd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

bool is_same_process(int pidfd, int other) {
  const auto first = facts_of(pidfd), second = facts_of(other);
  if (!first || !second) return false;
  const auto number = process_in(*first);
  return number && *number > 0 && number == process_in(*second);
}

bool is_trusted_owner(uid_t socket, uid_t folder, uid_t self) noexcept {
  return socket == self || socket == 0 || socket == folder;
}

result<void> check_owner(const std::string& socket_path) {
  const auto fail = [&](const std::string& why) {
    return error(errc::not_ready, "holder at '" + socket_path + "': " + why);
  };
  if (socket_path.size() >= sizeof(sockaddr_un::sun_path)) return {};  // nobody can connect to it
  struct stat socket {};
  struct stat folder {};
  const auto slash = socket_path.rfind('/');
  const auto dir = slash == std::string::npos ? std::string(".") : socket_path.substr(0, slash + 1);
  if (::lstat(socket_path.c_str(), &socket) != 0 || ::stat(dir.c_str(), &folder) != 0) {
    return fail(std::strerror(errno));
  }
  if (!S_ISSOCK(socket.st_mode)) return fail("is no socket");
  if (is_trusted_owner(socket.st_uid, folder.st_uid, ::geteuid())) return {};
  return fail("belongs to user " + std::to_string(socket.st_uid) +
              ", who is neither this engine's nor the folder's");
}

}  // namespace orcd::net
