#include "net/failover/frame_packet.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t control_bytes = CMSG_SPACE(sizeof(int) * frame_descriptors_max);

/// One for all sockets of a thread: a frame is read and understood before the next one. Not touched beyond
/// what comes.
std::byte* packet_buffer() {
  // One byte more than a frame may have, so that a longer one is seen.
  thread_local const auto buffer = std::make_unique_for_overwrite<std::byte[]>(frame_bytes_max + 1);
  return buffer.get();
}

std::vector<file_descriptor> take_descriptors(msghdr& message) {
  std::vector<file_descriptor> out;
  out.reserve(frame_descriptors_max);
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int one = -1;
      std::memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
      out.emplace_back(one);
    }
  }
  return out;
}

}  // namespace

result<std::optional<received_frame>> receive_frame(int socket) {
  iovec part{packet_buffer(), frame_bytes_max + 1};
  alignas(cmsghdr) std::array<unsigned char, control_bytes> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t bytes = -1;
  do {
    bytes = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A reset says that the other side has not read all of ours; what it sent is still there behind it.
  } while (bytes < 0 && (errno == EINTR || errno == ECONNRESET));
  if (bytes < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<received_frame>();
    return error(errc::not_ready, std::strerror(errno));
  }
  received_frame got;
  got.descriptors = take_descriptors(message);
  if (bytes == 0) return error(errc::not_ready, "the other side has closed the connection");
  if ((message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
    return error(errc::invalid_request, "a frame or its descriptors were too many to take");
  }
  const std::span<const std::byte> packet(packet_buffer(), static_cast<std::size_t>(bytes));
  auto understood = decode_frame(packet, got.descriptors.size());
  if (!understood) return understood.error();
  got.what = std::move(*understood);
  return std::optional(std::move(got));
}

sent send_packet(int socket, const std::string& bytes, std::span<const int> descriptors) noexcept {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<unsigned char, control_bytes> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(c), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return sent::yes;
    if (errno == EINTR) continue;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN) return sent::yes;
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK;
    const bool short_of = errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM;
    return full || short_of ? sent::later : sent::never;
  }
}

}  // namespace orcd::net
