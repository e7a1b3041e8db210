#include "test/kills/death.hpp"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

namespace orcd::kills {

namespace {

volatile std::uint32_t left = 0;
volatile bool stepping_on = false;

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

#if defined(__x86_64__)

constexpr greg_t trap_flag = 0x100;

/// Runs after each instruction. Without the flag in the saved registers the next one runs freely.
void on_trap(int /*number*/, siginfo_t* /*info*/, void* context) {
  auto& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (!stepping_on) {
    flags &= ~trap_flag;
    return;
  }
  const std::uint32_t now = left;
  if (now <= 1) die();
  left = now - 1;
}

void set_trap_flag() {
  // The stack below its pointer may be in use (the red zone of the ABI), hence the way around it.
  asm volatile(
      "lea -128(%%rsp), %%rsp\n\t"
      "pushfq\n\t"
      "orq $0x100, (%%rsp)\n\t"
      "popfq\n\t"
      "lea 128(%%rsp), %%rsp"
      :
      :
      : "cc", "memory");
}

#endif

}  // namespace

void death::passed(point here) {
  if (here != where_) return;
  // Among those that wait to be judged are answers under way, or the engine before would not have died.
  if ((here == point::taking_over || hits()) && --passes_ == 0) die();
}

std::uint32_t instructions_left() noexcept {
  return left;
}

void stop_stepping() {
  stepping_on = false;
}

#if defined(__x86_64__)

void step_to_death(std::uint32_t instructions) {
  static const bool installed = [] {
    struct sigaction action {};
    action.sa_sigaction = on_trap;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGTRAP, &action, nullptr) == 0;
  }();
  if (!installed) return;
  left = instructions;
  stepping_on = true;
  set_trap_flag();
}

#else

void step_to_death(std::uint32_t /*instructions*/) {}

#endif

}  // namespace orcd::kills
