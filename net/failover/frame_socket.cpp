#include "net/failover/frame_socket.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/failover/peer.hpp"

namespace orcd::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;

/// Read in one go before other handlers have their turn.
constexpr std::size_t frames_a_turn = 64;
constexpr std::chrono::milliseconds retry_after{5};
error broken(const std::string& why) {
  return {errc::not_ready, why};
}

}  // namespace

frame_socket::frame_socket(asio::io_context& io, file_descriptor socket, std::size_t queue_max)
    : socket_(io), retry_(io), queue_max_(queue_max) {
  socket_.assign(socket.get(), unwatched_);
  if (!unwatched_) static_cast<void>(socket.release());
}

void frame_socket::start(handlers told) {
  told_ = std::move(told);
  if (unwatched_) return end(broken(unwatched_.message()));
  await_read();
}

void frame_socket::await_read() {
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](error_code failed) {
                       if (failed || self->ended_) return;
                       for (std::size_t i = 0; i < frames_a_turn; ++i) {
                         if (!self->read_one()) break;
                       }
                       if (!self->ended_) self->await_read();
                     });
}

void frame_socket::read_now() {
  const auto self = shared_from_this();
  // As many as a socket's buffer holds: small frames of a sender that has ended.
  constexpr std::size_t frames_max = 4'096;
  for (std::size_t i = 0; i < frames_max; ++i) {
    if (!read_one()) return;
  }
}

void frame_socket::read_within(std::chrono::milliseconds limit) {
  if (ended_) return;
  pollfd waiting{socket_.native_handle(), POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(limit.count())) > 0) read_now();
}

/// False when there is nothing more to read for now.
bool frame_socket::read_one() {
  if (ended_) return false;
  auto got = receive_frame(socket_.native_handle());
  if (!got) {
    end(got.error());
    return false;
  }
  if (!*got) return false;
  told_.on_frame(std::move(**got));
  return true;
}

void frame_socket::send(const numbered_frame& what, std::span<const int> descriptors) {
  if (ended_) return;
  queued one{encode_frame(what)};
  if (queue_.empty()) {
    const auto tried = send_packet(socket_.native_handle(), one.bytes, descriptors);
    if (tried == sent::yes) return;
    if (tried == sent::never) return end(broken(std::strerror(errno)));
  }
  if (queue_.size() >= queue_max_) {
    return end(
        broken("does not read: " + std::to_string(queue_.size()) + " frames wait, which is the limit"));
  }
  for (const int descriptor : descriptors) {
    one.descriptors.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    if (!one.descriptors.back()) return end(broken(std::strerror(errno)));
  }
  queue_.push_back(std::move(one));
  if (queue_.size() == 1) await_write();
}

/// The socket may be writable all the while where the kernel's limit is another one: hence the pause.
void frame_socket::await_write() {
  retry_.expires_after(retry_after);
  retry_.async_wait([self = shared_from_this()](error_code failed) {
    if (failed || self->ended_) return;
    self->socket_.async_wait(asio::posix::stream_descriptor::wait_write, [self](error_code gone) {
      if (!gone && !self->ended_) self->flush();
    });
  });
}

void frame_socket::flush() {
  while (!queue_.empty()) {
    const auto& first = queue_.front();
    std::vector<int> numbers;
    for (const auto& one : first.descriptors) numbers.push_back(one.get());
    const auto tried = send_packet(socket_.native_handle(), first.bytes, numbers);
    if (tried == sent::later) return await_write();
    if (tried == sent::never) return end(broken(std::strerror(errno)));
    queue_.pop_front();
  }
  if (told_.on_drained) told_.on_drained();
}

void frame_socket::end(const error& why) {
  if (ended_) return;
  const auto executor = socket_.get_executor();
  auto on_end = std::move(told_.on_end);
  const auto self = shared_from_this();
  shut();
  if (on_end) {
    asio::post(executor, [self, on_end = std::move(on_end), why] {
      if (!self->left_) on_end(why);
    });
  }
}

void frame_socket::close() noexcept {
  left_ = true;
  shut();
}

void frame_socket::shut() noexcept {
  if (std::exchange(ended_, true)) return;
  error_code ignored;
  retry_.cancel();
  socket_.close(ignored);
  queue_.clear();
}

result<file_descriptor> connect_frames(const std::string& path) {
  const auto fail = [&](const std::string& why) {
    return error(errc::not_ready, "holder at '" + path + "': " + why);
  };
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail("a path of " + std::to_string(path.size()) + " bytes, the limit of a socket's is " +
                std::to_string(sizeof address.sun_path - 1));
  }
  if (auto trusted = check_owner(path); !trusted) return trusted.error();
  std::memcpy(address.sun_path, path.data(), path.size());
  file_descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail(std::strerror(errno));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return socket;
  const bool full = errno == EAGAIN;
  auto failed = fail(std::strerror(errno));
  if (full) failed.code = errc::queue_full;
  return failed;
}

}  // namespace orcd::net
