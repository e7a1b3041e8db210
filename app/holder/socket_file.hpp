// A listening socket with a name in a folder, for processes of this host.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "engine/base/error.hpp"
#include "net/failover/file_descriptor.hpp"

namespace orcd::app {

inline constexpr auto no_group = static_cast<gid_t>(-1);

class socket_file {
 public:
  /// Takes the file of a process away that is gone. `group`: its members may connect, too, or no_group. The
  /// caller sees that nobody else does this in the folder. Errors (as start_errc()) are one sentence that
  /// names the path: a process lives there, a file is in the way, the path is too long.
  [[nodiscard]] static engine::result<socket_file> listen(const std::string& path, gid_t group);
  /// Whether a path is too long for a socket, without touching it.
  [[nodiscard]] static std::optional<engine::error> check_length(const std::string& path);
  /// Takes the file away.
  ~socket_file();
  socket_file(socket_file&&) noexcept = default;
  socket_file& operator=(socket_file&&) = delete;

  [[nodiscard]] int listener() const noexcept { return listener_.get(); }

 private:
  socket_file() = default;

  std::string path_;
  net::file_descriptor listener_;
};

/// That a path of the failover folder cannot be used; without a reason it is errno's.
[[nodiscard]] engine::error path_refusal(const std::string& path, const std::string& why);
[[nodiscard]] engine::error path_refusal(const std::string& path);

}  // namespace orcd::app
