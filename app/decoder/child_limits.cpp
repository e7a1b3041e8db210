#include "app/decoder/child_limits.hpp"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace orcd::app {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t own_architecture = AUDIT_ARCH_AARCH64;
#else
constexpr std::uint32_t own_architecture = 0;  // no filter fits: nothing is decoded
#endif

/// What the libraries and malloc need. No file can be opened, so that a mapping is memory alone.
constexpr std::array allowed{SYS_read,         SYS_write,   SYS_mmap,      SYS_munmap, SYS_mremap,
                             SYS_brk,          SYS_madvise, SYS_mprotect,  SYS_futex,  SYS_getrandom,
                             SYS_rt_sigreturn, SYS_exit,    SYS_exit_group};

constexpr sock_filter statement(std::uint32_t code, std::uint32_t value) noexcept {
  return {static_cast<std::uint16_t>(code), 0, 0, value};
}

constexpr sock_filter jump_if_equal(std::uint32_t value, std::uint8_t then, std::uint8_t otherwise) noexcept {
  return {static_cast<std::uint16_t>(BPF_JMP | BPF_JEQ | BPF_K), then, otherwise, value};
}

bool set_limit(int what, std::uint64_t value) noexcept {
  const rlimit limit{value, value};
  return setrlimit(static_cast<__rlimit_resource_t>(what), &limit) == 0;
}

bool set_filter() noexcept {
  std::array<sock_filter, 5 + allowed.size() * 2 + 1> program{};
  std::size_t at = 0;
  program[at++] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  program[at++] = jump_if_equal(own_architecture, 1, 0);
  program[at++] = statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  program[at++] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const long call : allowed) {
    program[at++] = jump_if_equal(static_cast<std::uint32_t>(call), 0, 1);
    program[at++] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  program[at++] = statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  const sock_fprog whole{static_cast<unsigned short>(at), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole, 0, 0) == 0;
}

}  // namespace

bool confine_child(std::uint64_t memory_bytes, decode_time time) noexcept {
  alarm(time.wall_seconds);
  if (!set_limit(RLIMIT_CPU, time.cpu_seconds) || !set_limit(RLIMIT_CORE, 0)) return false;
  if (!confines_calls) return true;
  return set_limit(RLIMIT_AS, memory_bytes) && set_limit(RLIMIT_NOFILE, 0) && set_filter();
}

}  // namespace orcd::app
