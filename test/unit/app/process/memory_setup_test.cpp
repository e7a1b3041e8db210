#include "app/process/memory_setup.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <exception>
#include <new>
#include <string>

using namespace orcd;

namespace {

/// Nothing catches it.
void run_short() noexcept {
  try {
    throw std::bad_alloc();
  } catch (...) {
    std::terminate();
  }
}

/// Does in its end what operator new does where there is no memory. Inlined, as the optimizer likes to do, it
/// ends the process without a current exception.
struct last_allocation {
  [[gnu::always_inline]] ~last_allocation() { std::get_new_handler()(); }
};

void run_short_at_an_end() {
  const last_allocation ends;
}

/// The exit code of a process that runs out of memory with this standard error; -1 when it hangs.
int code_with(int standard_error, void (*run)()) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(standard_error, STDERR_FILENO);
    app::end_in_order_without_memory("inference");
    run();
    ::_exit(0);
  }
  pollfd end{static_cast<int>(::syscall(SYS_pidfd_open, child, 0)), POLLIN, 0};
  const bool hangs = ::poll(&end, 1, 60'000) != 1;
  ::close(end.fd);
  if (hangs) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (hangs) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(memory_shortage)

BOOST_AUTO_TEST_CASE(ends_with_the_program_s_name_and_never_waits_for_a_reader) {
  std::array<int, 2> ends{};
  BOOST_REQUIRE(::pipe2(ends.data(), O_NONBLOCK) == 0);
  ::fcntl(ends[1], F_SETFL, 0);
  std::array<char, 4096> bytes{};
  for (const auto end : std::array<void (*)(), 2>{run_short_at_an_end, run_short}) {
    BOOST_TEST(code_with(ends[1], end) == 1);
    const auto count = ::read(ends[0], bytes.data(), bytes.size());
    BOOST_TEST(std::string(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0) ==
               "inference: out of memory; exiting\n");
  }
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  while (::write(ends[1], bytes.data(), bytes.size()) > 0) {
  }
  ::fcntl(ends[1], F_SETFL, 0);
  BOOST_TEST(code_with(ends[1], run_short) == 1);
  for (const int end : ends) ::close(end);
}

BOOST_AUTO_TEST_SUITE_END()
