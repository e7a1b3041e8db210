// worker-orcd: reads the options, runs the worker, returns its exit code. The one catch-all is here.
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "app/exit_guard.hpp"
#include "app/model_setup.hpp"
#include "app/narration.hpp"
#include "app/options.hpp"
#include "app/worker.hpp"

namespace {

using namespace orcd;

app::exit_code serve(const app::options& opts) {
  app::exit_guard guard;
  const bool host = opts.backend == app::backend_kind::host;
  app::log_narrator narrator(app::make_narration_config(opts),
                             {opts.worker_id, app::model_name_of(opts.model),
                              host ? std::int64_t{-1} : static_cast<std::int64_t>(opts.gpu.index)});
  try {
    return app::run_worker(opts, narrator, guard);
  } catch (const std::exception& e) {
    narrator.narrate(engine::severity::critical, "error", std::string("Unexpected failure: ") + e.what(),
                     {{"code", engine::code_name(engine::errc::internal)}});
    return app::exit_code::failure;
  }
}

app::exit_code run(int argc, char** argv) {
  // A client that hangs up is an error of one write, not the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto parsed = app::parse_options(args, app::current_environment(), app::read_config_file);
  if (!parsed) {
    std::fprintf(stderr, "worker-orcd: %s\n", parsed.error().message.c_str());
    return app::exit_code::usage;
  }
  if (parsed->what == app::command::kind::print) {
    std::fputs(parsed->text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? app::exit_code::ok : app::exit_code::failure;
  }
  return serve(parsed->opts);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return static_cast<int>(run(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "worker-orcd: unexpected failure: %s\n", e.what());
    return static_cast<int>(orcd::app::exit_code::failure);
  }
}
