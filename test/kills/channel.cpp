#include "test/kills/channel.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace orcd::kills {

namespace {

union descriptor_room {
  cmsghdr head;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

}  // namespace

bool tell(int channel, const message& what, int socket) {
  message copy = what;
  iovec part{&copy, sizeof copy};
  descriptor_room room{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  if (socket >= 0) {
    packet.msg_control = room.bytes.data();
    packet.msg_controllen = room.bytes.size();
    cmsghdr* const beside = CMSG_FIRSTHDR(&packet);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(beside), &socket, sizeof socket);
  }
  while (::sendmsg(channel, &packet, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

std::optional<received_message> hear(int channel) {
  received_message out;
  iovec part{&out.told, sizeof out.told};
  descriptor_room room{};
  msghdr packet{};
  packet.msg_iov = &part;
  packet.msg_iovlen = 1;
  packet.msg_control = room.bytes.data();
  packet.msg_controllen = room.bytes.size();
  for (;;) {
    const auto bytes = ::recvmsg(channel, &packet, MSG_CMSG_CLOEXEC);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes != static_cast<ssize_t>(sizeof out.told)) return std::nullopt;
    break;
  }
  const cmsghdr* const beside = CMSG_FIRSTHDR(&packet);
  if (beside != nullptr && beside->cmsg_type == SCM_RIGHTS) {
    int socket = -1;
    std::memcpy(&socket, CMSG_DATA(beside), sizeof socket);
    out.socket.reset(socket);
  }
  return out;
}

}  // namespace orcd::kills
