// One accepted connection, and the set of all of them. io thread only. Private to net/.
#pragma once

#include <cstddef>
#include <unordered_set>

#include "engine/schedule/job.hpp"
#include "net/asio.hpp"
#include "net/server.hpp"

namespace orcd::net {

struct connection {
  connection(tcp::socket socket, const connection_limits& limits);

  beast::tcp_stream stream;
  beast::flat_buffer input;  ///< received and not yet parsed; bounded
  bool idle = true;          ///< no complete request is in hand: may be closed to make room
  engine::steady_time idle_since{};
};

class connection_set {
 public:
  void add(connection& c) { all_.insert(&c); }
  void remove(connection& c) { all_.erase(&c); }
  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }

  /// Closes the connection that has been idle longest, at least 2 s; false when there is none.
  bool evict_oldest_idle();
  void close_idle();
  void close_all();

 private:
  std::unordered_set<connection*> all_;
};

}  // namespace orcd::net
