// inference: the token pipe that the Trillim SDK starts. The one catch-all is here.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/pipe/arguments.hpp"
#include "app/pipe/run_pipe.hpp"
#include "app/process/memory_setup.hpp"
#include "app/process/standard_streams.hpp"
#include "app/version/version.hpp"

namespace {

using namespace orcd;

/// One line, which a pipe takes as a whole.
void complain(std::string_view what) noexcept {
  constexpr std::size_t line_max = 2'000;
  try {
    const std::string line = app::one_line(what);
    app::write_error_at_once("inference: " + line.substr(0, line_max) + "\n");
  } catch (const std::bad_alloc&) {
    app::write_error_at_once("inference: out of memory\n");
  }
}

/// The model's memory goes with the process.
void end(const app::pipe_end& how) {
  if (!how.message.empty()) complain(how.message);
  std::_Exit(how.code);
}

/// --help and --version; false for everything else.
bool print(const std::vector<std::string_view>& words) {
  const auto parsed = app::parse_pipe_arguments(words);
  if (!parsed || parsed->what == app::pipe_arguments::action::run) return false;
  const bool help = parsed->what == app::pipe_arguments::action::help;
  const std::string text =
      help ? std::string(app::pipe_usage()) : std::string("inference ") + app::version() + "\n";
  std::fputs(text.c_str(), stdout);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (::fcntl(STDOUT_FILENO, F_GETFD) < 0) end({2, "standard output is closed; it must be open"});
    app::open_standard_streams();
    std::signal(SIGPIPE, SIG_IGN);
    app::return_freed_memory();
    app::end_in_order_without_memory("inference");
    const std::vector<std::string_view> words(argv + std::min(argc, 1), argv + argc);
    if (print(words)) return std::fflush(stdout) == 0 ? 0 : 1;
    app::run_pipe(words, app::current_environment(), end);
  } catch (const std::bad_alloc&) {
    end({1, "out of memory"});
  } catch (const std::exception& failure) {
    end({1, failure.what()});
  }
  return 1;
}
