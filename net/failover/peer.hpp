// Who is at the other end of a local socket: what a process may be believed of itself before it is handed
// clients' connections, or is killed for hanging. The functions of facts are pure; the others ask the kernel.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

/// Another user's process has no business at the socket. `group`: members of it may; -1: only the same user.
struct peer_rule {
  uid_t user = 0;
  gid_t group = static_cast<gid_t>(-1);
};

/// `group` is the peer's primary one, `others` are its supplementary ones.
[[nodiscard]] bool is_allowed(uid_t user, gid_t group, std::span<const gid_t> others,
                              const peer_rule& rule) noexcept;
/// The same of the process that connected the socket.
[[nodiscard]] bool is_allowed(int socket, const peer_rule& rule);

/// What /proc/self/fdinfo says of a pidfd: the process's number in this PID namespace, 0 where it has none
/// here, -1 when it has ended; nullopt where the descriptor is no pidfd.
[[nodiscard]] std::optional<long> process_in(std::string_view fdinfo) noexcept;
/// Whether a pidfd of that process is the peer's own. Of a peer in a PID namespace that is not seen from
/// here, whose number is 0, no more can be said than that its pidfd is not of a process that is seen.
[[nodiscard]] bool is_number_of(pid_t peer, std::optional<long> process) noexcept;
/// The same of the process that connected the socket. True where there is no /proc to ask.
[[nodiscard]] bool is_own_pidfd(int socket, int pidfd);
/// The process that a pidfd is of, by its number in this PID namespace; nullopt where it has none here, has
/// ended, or the kernel does not tell.
[[nodiscard]] std::optional<std::uint32_t> process_number(int pidfd);
/// A process that a pidfd is of has ended.
[[nodiscard]] bool has_ended(int pidfd) noexcept;
/// Whether two pidfds are of one process, as far as this PID namespace sees it.
[[nodiscard]] bool is_same_process(int pidfd, int other);

/// Whether a socket file may be the holder's: it is this user's, root's or the folder's owner's.
[[nodiscard]] bool is_trusted_owner(uid_t socket, uid_t folder, uid_t self) noexcept;
/// Looks before connecting, at the file itself: a link might lead to anybody's. Errors: not_ready, naming the
/// path.
[[nodiscard]] engine::result<void> check_owner(const std::string& socket_path);

}  // namespace orcd::net
