// One end of a socket of frames, on the thread of one io_context. Nothing waits: what the other side does not
// read yet is queued, up to a bound, and one who breaks a rule is left.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/failover/file_descriptor.hpp"
#include "net/failover/frame_packet.hpp"

namespace orcd::net {

class frame_socket : public std::enable_shared_from_this<frame_socket> {
 public:
  using received = received_frame;
  struct handlers {
    std::function<void(received)> on_frame;
    /// The other side is gone, or has broken a rule. Once; never after close(). Not from within send().
    std::function<void(engine::error)> on_end;
    /// What was queued has been sent.
    std::function<void()> on_drained{};
  };

  /// `queue_max`: frames that may wait for the other side to read. Where the system is short of what it takes
  /// to wait for a socket, start() ends the connection.
  frame_socket(boost::asio::io_context& io, file_descriptor socket, std::size_t queue_max);

  void start(handlers told);
  /// Sends, or queues with duplicates of the descriptors. A full queue ends the connection.
  void send(const numbered_frame& what, std::span<const int> descriptors = {});
  /// Reads what has come already, without waiting for more.
  void read_now();
  /// Waits for something to come, for this long at most, and reads it.
  void read_within(std::chrono::milliseconds limit);
  [[nodiscard]] bool is_open() const noexcept { return !ended_; }
  /// For questions to the kernel about the other side; -1 when it has ended.
  [[nodiscard]] int descriptor() { return ended_ ? -1 : socket_.native_handle(); }
  [[nodiscard]] bool has_queue() const noexcept { return !queue_.empty(); }
  void close() noexcept;

 private:
  struct queued {
    std::string bytes;
    std::vector<file_descriptor> descriptors{};
  };

  void await_read();
  void await_write();
  bool read_one();
  void flush();
  void end(const engine::error& why);
  void shut() noexcept;

  boost::system::error_code unwatched_;  ///< why the socket could not be waited for, if so
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer retry_;  ///< where the kernel has too many descriptors under way
  const std::size_t queue_max_;
  handlers told_;
  std::deque<queued> queue_;
  bool ended_ = false;
  bool left_ = false;  ///< the owner wants to hear no more
};

/// Connects without waiting, and only to a socket file that check_owner() trusts. Errors, naming the path and
/// the reason: not_ready; queue_full where connects wait for the other side already, as many as may.
[[nodiscard]] engine::result<file_descriptor> connect_frames(const std::string& path);

}  // namespace orcd::net
