// Where processes of this host connect: accepts those that may, for as long as it is there. On the thread of
// one io_context.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>

#include "engine/base/narration.hpp"
#include "net/failover/file_descriptor.hpp"
#include "net/failover/peer.hpp"

namespace orcd::app {

class local_door {
 public:
  /// `listener`: a listening socket, of which it keeps a duplicate. `taken` gets each connection.
  local_door(boost::asio::io_context& io, int listener, net::peer_rule rule, engine::narrator& narrator,
             std::function<void(net::file_descriptor)> taken);

  void start();

 private:
  void take_one();
  void pause();

  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;  ///< where there are no descriptors left
  const net::peer_rule rule_;
  engine::narrator& narrator_;
  const std::function<void(net::file_descriptor)> taken_;
};

}  // namespace orcd::app
