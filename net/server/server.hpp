// The HTTP server: accepts, routes and answers; knows jobs only through engine/ interfaces.
// Everything runs on the thread of the io_context given. Source: M0-W-1300..1350, WORK-3040..3053.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "net/jobs/server_config.hpp"
#include "net/server/takeover.hpp"

namespace boost::asio {
class io_context;
}

namespace orcd::net {

struct session_guard;

class server {
 public:
  server(boost::asio::io_context& io, server_config config, server_context context);
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Reserves the address; fails with worker_start_failed naming address, port and reason.
  /// Returns the port. Nothing is accepted before listen().
  [[nodiscard]] engine::result<std::uint16_t> bind();
  /// Instead of bind(): serves at a socket that listens already, and closes it at the end. Whoever passed it
  /// may keep a duplicate, where connections then wait. Fails with worker_start_failed.
  [[nodiscard]] engine::result<std::uint16_t> take_listener(int descriptor);
  [[nodiscard]] engine::result<void> listen();

  /// Serves connections that a holder accepted, instead of accepting by itself: `all` are those that another
  /// engine left, or none. Each goes on where the journal and the kernel say that it stopped. Errors: as
  /// takeover::make().
  [[nodiscard]] engine::result<takeover_counts> serve_held(int journal, held_config config,
                                                           held_connections all);
  /// The digest of the weights is known, as number_of(): see held_config::identity.
  void know_digest(std::uint64_t digest);
  /// Before another engine may take over: connections that are still there are left to it as they are. From
  /// here on not a byte goes to a client or comes from one. `in_order`: see journal::leave(). serve_held()
  /// may follow when there are no sessions any more.
  void leave_held(bool in_order) noexcept;
  /// Sessions that have not ended.
  [[nodiscard]] std::size_t sessions() const noexcept;
  /// Requests that another engine began and that this one is still to prepare.
  [[nodiscard]] std::size_t recovering() const noexcept;
  /// Connections that another engine could not go on with, because the journal had no room.
  [[nodiscard]] std::size_t unkept() const noexcept;
  /// One more that the holder has accepted; after serve_held().
  void adopt(held_socket held);
  /// One of those that were to wait when the others came.
  void adopt_late(held_socket held);

  /// The server's own families of /metrics.
  [[nodiscard]] std::string scrape() const;
  /// Accepts no more than this many connections at a time from now on.
  void limit_connections(std::size_t connections_max);

  /// Connections that are open now.
  [[nodiscard]] std::size_t connections() const noexcept;
  /// Ends every stream that is still open with an `error` event and closes all connections;
  /// `done` is called when the last session is gone, at the latest after `grace`.
  void stop(std::chrono::milliseconds grace, std::function<void()> done);

 private:
  friend struct session_guard;
  struct impl;
  std::shared_ptr<impl> impl_;
};

}  // namespace orcd::net
