#include "app/holder/shared_files.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>

#include "net/journal/journal.hpp"

namespace orcd::app {
namespace {

constexpr int journal_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::optional<int> option_of(int socket, int name) noexcept {
  int value = 0;
  socklen_t bytes = sizeof value;
  if (::getsockopt(socket, SOL_SOCKET, name, &value, &bytes) != 0) return std::nullopt;
  return value;
}

bool is_tcp(int descriptor) noexcept {
  return option_of(descriptor, SO_TYPE) == SOCK_STREAM && option_of(descriptor, SO_PROTOCOL) == IPPROTO_TCP;
}

}  // namespace

engine::errc start_errc(int number) noexcept {
  constexpr std::array<int, 7> passing{EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN, EINTR, ENOSPC};
  const bool passes = std::find(passing.begin(), passing.end(), number) != passing.end();
  return passes ? engine::errc::not_ready : engine::errc::worker_start_failed;
}

engine::result<net::file_descriptor> make_journal(std::uint32_t mib) {
  net::file_descriptor journal(::memfd_create("worker-orcd-journal", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = net::journal::bytes_of(mib);
  if (journal && ::ftruncate(journal.get(), static_cast<off_t>(bytes)) == 0 &&
      ::fcntl(journal.get(), F_ADD_SEALS, journal_seals) == 0) {
    void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, journal.get(), 0);
    if (at != MAP_FAILED) {
      net::journal::format({static_cast<std::byte*>(at), bytes});
      ::munmap(at, bytes);
      return journal;
    }
  }
  const int why = errno;
  return engine::error(start_errc(why),
                       "no journal of " + std::to_string(mib) + " MiB: " + std::strerror(why), "journal-mib");
}

bool is_journal(int descriptor) noexcept {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & journal_seals) == journal_seals;
}

bool is_listening(int descriptor) noexcept {
  return is_tcp(descriptor) && option_of(descriptor, SO_ACCEPTCONN) == 1;
}

bool is_connection(int descriptor) noexcept {
  return is_tcp(descriptor) && option_of(descriptor, SO_ACCEPTCONN) == 0;
}

bool is_memory(int descriptor, std::uint64_t bytes) noexcept {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) return false;
  if (S_ISSOCK(facts.st_mode) || S_ISFIFO(facts.st_mode) || S_ISDIR(facts.st_mode)) return false;
  const bool has_length =
      S_ISREG(facts.st_mode) && (facts.st_size > 0 || ::fcntl(descriptor, F_GET_SEALS) >= 0);
  return !has_length || static_cast<std::uint64_t>(facts.st_size) >= bytes;
}

bool is_process(int descriptor) noexcept {
  // The kernel looks at what it is before anything else; no signal is sent.
  return ::syscall(SYS_pidfd_send_signal, descriptor, 0, nullptr, 0) == 0 || errno != EBADF;
}

std::uint64_t raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1'024;
  const auto before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
}

}  // namespace orcd::app
