// worker-orcd-holder: reads the options, runs the holder, returns its exit code. The one catch-all is here.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/holder/holder_options.hpp"
#include "app/holder/run_holder.hpp"
#include "app/process/narration.hpp"
#include "app/process/standard_streams.hpp"

namespace {

using namespace orcd;
using task = app::holder_options::task;

app::exit_code run(const std::vector<std::string>& args) {
  const auto opts = app::parse_holder_options(args);
  if (!opts) {
    std::fputs(app::complaint("worker-orcd-holder", opts.error().message).c_str(), stderr);
    return app::exit_code::usage;
  }
  if (opts->what == task::print) {
    std::fputs(opts->text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? app::exit_code::ok : app::exit_code::failure;
  }
  if (opts->what != task::hold) return app::run_check(*opts);
  const char* const stream = std::getenv("JOURNAL_STREAM");
  app::log_narrator narrator(
      app::make_narration_config(opts->format, opts->log_level, stream != nullptr ? stream : ""),
      {"holder", {}, -1});
  const auto code = app::run_holder(*opts, narrator);
  narrator.narrate(engine::severity::info, "stopped", "The holder has stopped",
                   {{"exit_code", static_cast<std::int64_t>(code)}});
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    app::open_standard_streams();
    return static_cast<int>(run({argv + (argc > 0 ? 1 : 0), argv + argc}));
  } catch (const std::exception& e) {
    std::fputs(app::complaint("worker-orcd-holder", e.what()).c_str(), stderr);
    return static_cast<int>(app::exit_code::failure);
  }
}
