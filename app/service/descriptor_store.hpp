// The descriptors that systemd keeps for a service across its restarts (FileDescriptorStoreMax=,
// sd_notify(3)), by name. Where nobody keeps any, nothing happens.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "net/failover/file_descriptor.hpp"

namespace orcd::app {

struct stored_descriptor {
  std::string name;
  net::file_descriptor descriptor;
};

/// What was passed to this process, in order. To be called once, before other descriptors are opened. Errors
/// (invalid_request): LISTEN_FDS, LISTEN_PID or LISTEN_FDNAMES cannot be read.
[[nodiscard]] engine::result<std::vector<stored_descriptor>> take_stored_descriptors();

class descriptor_store {
 public:
  /// Sends a state, with a descriptor where it is not negative. False: not now. Must not wait.
  using send_function = std::function<bool(const std::string& state, int descriptor)>;
  struct item {
    std::string name;
    int descriptor = -1;
    /// Whether it may be let go when its other side has left.
    bool is_watched = true;
  };
  /// Messages of one update(): the service manager has other work.
  static constexpr std::size_t messages_max = 256;

  /// Keeps up to `most`; of $FDSTORE, if that says less (systemd 254). Sends to $NOTIFY_SOCKET.
  explicit descriptor_store(std::size_t most);
  descriptor_store(std::size_t most, send_function send) : most_(most), send_(std::move(send)) {}

  /// Whether there is a service manager that may keep some.
  [[nodiscard]] bool is_there() const noexcept { return most_ > 0 && send_ != nullptr; }
  /// What was passed at the start is kept already.
  void note(const stored_descriptor& passed);
  /// Makes what is kept what is wanted, as far as messages and room go; the first ones first. Whether all is
  /// done. Names: up to 255 printable characters without a colon.
  bool update(std::span<const item> wanted);
  [[nodiscard]] std::size_t size() const noexcept { return kept_.size(); }

 private:
  const std::size_t most_;
  const send_function send_;
  std::map<std::string, ino_t, std::less<>> kept_;  ///< by name; the number tells files of one name apart
};

}  // namespace orcd::app
