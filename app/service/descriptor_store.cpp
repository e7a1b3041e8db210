#include "app/service/descriptor_store.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <system_error>

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

ino_t number_of(int descriptor) noexcept {
  struct stat facts {};
  return ::fstat(descriptor, &facts) == 0 ? facts.st_ino : 0;
}

/// sd_notify waits where the service manager does not read; this does not.
bool send_state(const sockaddr_un& to, socklen_t to_bytes, const std::string& state, int descriptor) {
  const net::file_descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return false;
  iovec text{const_cast<char*>(state.data()), state.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> beside{};
  msghdr message{};
  message.msg_name = const_cast<sockaddr_un*>(&to);
  message.msg_namelen = to_bytes;
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = beside.data();
    message.msg_controllen = beside.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  }
  return ::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

descriptor_store::send_function to_manager() {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return nullptr;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length < 2 || length >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) return nullptr;
  std::memcpy(to.sun_path, path, length);
  if (path[0] == '@') to.sun_path[0] = '\0';  // of the abstract name space
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  return [to, bytes](const std::string& state, int descriptor) {
    return send_state(to, bytes, state, descriptor);
  };
}

std::size_t limited(std::size_t most) {
  const char* const said = std::getenv("FDSTORE");
  if (said == nullptr) return most;
  std::size_t room = 0;
  const auto* const end = said + std::strlen(said);
  const auto read = std::from_chars(said, end, room);
  return read.ec == std::errc{} && read.ptr == end ? std::min(most, room) : most;
}

}  // namespace

result<std::vector<stored_descriptor>> take_stored_descriptors() {
  char** names = nullptr;
  // The variables are not for engines that this process starts.
  const int count = ::sd_listen_fds_with_names(1, &names);
  std::vector<stored_descriptor> out;
  for (int i = 0; i < count; ++i) {
    out.push_back({names[i], net::file_descriptor(SD_LISTEN_FDS_START + i)});
    std::free(names[i]);
  }
  std::free(names);
  if (count >= 0) return out;
  return error(errc::invalid_request, "LISTEN_FDS, LISTEN_PID or LISTEN_FDNAMES cannot be read: " +
                                          std::generic_category().message(-count));
}

descriptor_store::descriptor_store(std::size_t most) : most_(limited(most)), send_(to_manager()) {}

void descriptor_store::note(const stored_descriptor& passed) {
  kept_.emplace(passed.name, number_of(passed.descriptor.get()));
}

bool descriptor_store::update(std::span<const item> wanted) {
  if (!is_there()) return true;
  std::map<std::string_view, ino_t> numbers;
  for (const item& one : wanted) numbers.emplace(one.name, number_of(one.descriptor));
  std::size_t left = messages_max;
  for (auto one = kept_.begin(); one != kept_.end();) {
    const auto same = numbers.find(one->first);
    if (same != numbers.end() && same->second == one->second) {
      ++one;
      continue;
    }
    if (left-- == 0 || !send_("FDSTOREREMOVE=1\nFDNAME=" + one->first, -1)) return false;
    one = kept_.erase(one);
  }
  for (const item& one : wanted) {
    if (kept_.contains(one.name)) continue;
    if (kept_.size() >= most_) return false;
    const char* const unwatched = one.is_watched ? "" : "\nFDPOLL=0";
    if (left-- == 0 || !send_("FDSTORE=1\nFDNAME=" + one.name + unwatched, one.descriptor)) return false;
    kept_.emplace(one.name, numbers[one.name]);
  }
  return true;
}

}  // namespace orcd::app
