// The client connections that a holder has: at most net::held_sockets_max, each with a slot and a serial. It
// owns the duplicates of their sockets. Source: the holder of the failover plan.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "net/failover/file_descriptor.hpp"
#include "net/failover/holder_frames.hpp"

namespace orcd::app {

class held_table {
 public:
  /// `limit`: connections, at most net::held_sockets_max.
  explicit held_table(std::uint32_t limit);

  [[nodiscard]] bool is_full() const noexcept { return count_ >= limit_; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  /// No connection has had this serial or a higher one.
  [[nodiscard]] std::uint64_t next_serial() const noexcept { return next_serial_; }

  /// A place for a new connection, the lowest free slot; nullopt when it is full.
  [[nodiscard]] std::optional<net::held_place> add(net::file_descriptor socket);
  /// Puts a connection back that another holder had. False where the slot is taken, or beyond the limit.
  [[nodiscard]] bool put(net::held_place place, net::file_descriptor socket);
  /// Serials below this one are used up.
  void skip_serials(std::uint64_t next) noexcept;
  /// Shuts the connection down, since its engine may have closed its own end without, and closes the
  /// duplicate; false when that connection is not here (any more).
  bool close(net::held_place place);
  /// Closes those whose connection is over, which their engine has not said. How many.
  std::uint32_t close_ended();
  void clear();

  /// The engine that took over has no room for this one yet.
  void let_wait(net::held_place place);
  [[nodiscard]] std::uint32_t waiting() const noexcept { return waiting_; }

  struct entry {
    net::held_place place{};
    int socket = -1;
  };
  [[nodiscard]] std::vector<entry> all() const;
  /// The first of those that wait, which does so no more.
  [[nodiscard]] std::optional<entry> take_waiting();
  /// None of them does any more.
  void end_waiting() noexcept;

 private:
  struct held {
    std::uint64_t serial = 0;  ///< 0: the slot is free
    net::file_descriptor socket{};
    bool waits = false;
  };
  void free(held& one) noexcept;
  void take(std::uint32_t slot, std::uint64_t serial, net::file_descriptor socket);

  const std::uint32_t limit_;
  std::vector<held> slots_;
  std::uint32_t count_ = 0;
  std::uint32_t waiting_ = 0;
  std::uint64_t next_serial_ = 1;
};

}  // namespace orcd::app
