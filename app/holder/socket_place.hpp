// The folder and the file of the holder's socket: who may reach it, and that there is one holder only.
#pragma once

#include <string>
#include <utility>

#include "app/holder/socket_file.hpp"
#include "engine/base/error.hpp"
#include "net/failover/file_descriptor.hpp"
#include "net/failover/peer.hpp"

namespace orcd::app {

class socket_place {
 public:
  /// Makes the folder if it is not there, sees that others may not write to it, and listens at
  /// `dir`/connections.sock. `group`: a group's name or number, or empty. Errors (worker_start_failed) are
  /// one sentence that names the path: another holder lives there, a file is in the way, the path is too
  /// long.
  [[nodiscard]] static engine::result<socket_place> take(const std::string& dir, const std::string& group);
  [[nodiscard]] int listener() const noexcept { return socket_.listener(); }
  /// Who may connect.
  [[nodiscard]] const net::peer_rule& rule() const noexcept { return rule_; }

 private:
  socket_place(net::peer_rule rule, net::file_descriptor lock, socket_file socket)
      : rule_(rule), lock_(std::move(lock)), socket_(std::move(socket)) {}

  net::peer_rule rule_;
  net::file_descriptor lock_;  ///< of the one holder; the kernel frees it with the process
  socket_file socket_;         ///< gone before the lock
};

}  // namespace orcd::app
