// A second process of a test: what it computes comes back as bytes.
#pragma once

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <functional>
#include <string>

namespace orcd::test {

struct child_result {
  std::string output;
  int signal = 0;  ///< that ended it; 0 = it came to its end
  int status = 0;
};

/// Runs `body` in a copy of this process, without Boost.Test's macros and handlers of signals; its return
/// value is the output. An exception is status 1. Blocks until the child has ended.
inline child_result run_in_child(const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  BOOST_REQUIRE_EQUAL(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  BOOST_REQUIRE_GE(child, 0);
  if (child == 0) {
    const struct rlimit no_core {};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT}) std::signal(number, SIG_DFL);
    int status = 0;
    try {
      const std::string output = body();
      for (std::size_t at = 0; at < output.size();) {
        const ssize_t count = ::write(ends[1], output.data() + at, output.size() - at);
        if (count <= 0) ::_exit(2);
        at += static_cast<std::size_t>(count);
      }
    } catch (...) {
      status = 1;
    }
    ::_exit(status);
  }
  ::close(ends[1]);
  child_result result;
  std::array<char, 65536> piece{};
  for (ssize_t count = 0; (count = ::read(ends[0], piece.data(), piece.size())) > 0;) {
    result.output.append(piece.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int how = 0;
  BOOST_REQUIRE_EQUAL(::waitpid(child, &how, 0), child);
  if (WIFSIGNALED(how)) result.signal = WTERMSIG(how);
  if (WIFEXITED(how)) result.status = WEXITSTATUS(how);
  return result;
}

}  // namespace orcd::test
