// How many connections the worker may have open at a time, by the file descriptors that the system gives it.
// The main thread at the start, then the io thread.
#pragma once

#include <cstdint>
#include <optional>

#include "app/options/options.hpp"
#include "app/process/descriptor_plan.hpp"
#include "engine/base/error.hpp"
#include "engine/base/narration.hpp"

namespace orcd::app {

/// What else of this process opens descriptors.
struct descriptor_users {
  bool probes = false;        ///< the system port
  bool holder = false;        ///< connections come from a holder, many at once
  std::uint64_t opening = 0;  ///< by what is still being opened at the start
};
/// Descriptors that they need beside those of clients' connections.
[[nodiscard]] std::uint64_t spare_descriptors(const descriptor_users& users) noexcept;

class connection_room {
 public:
  connection_room(const options& opts, engine::narrator& narrator) : opts_(opts), narrator_(narrator) {}

  /// Raises the soft limit of descriptors as far as needed. Called twice: at the start, so that a worker that
  /// cannot serve does not load for a minute first, and when the worker has opened all of its own
  /// descriptors. Errors: worker_start_failed, where not even a few connections fit.
  [[nodiscard]] engine::result<void> make(const descriptor_users& users);
  /// What make() has found.
  [[nodiscard]] std::uint32_t connections() const noexcept { return connections_; }
  /// Connections of a holder that there are descriptors for: more than that cannot be received.
  [[nodiscard]] static std::uint32_t for_held(const descriptor_users& users);

 private:
  const options& opts_;
  engine::narrator& narrator_;
  std::uint32_t connections_ = 0;
};

}  // namespace orcd::app
