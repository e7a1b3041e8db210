// worker-orcd: reads the options, runs the worker, returns its exit code. The one catch-all is here.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/console/one_line.hpp"
#include "app/options/parse_options.hpp"
#include "app/options/serving_config.hpp"
#include "app/process/memory_setup.hpp"
#include "app/process/narration.hpp"
#include "app/process/process_guard.hpp"
#include "app/process/standard_streams.hpp"
#include "app/service/passed_listener.hpp"
#include "app/worker/worker.hpp"

namespace {

using namespace orcd;

engine::result<app::command> read_options(const std::vector<std::string>& args) {
  return app::parse_options(args, app::current_environment(), app::read_config_file);
}

/// Puts the socket that a service manager passed, if one did, in place of the configured address.
engine::result<void> use_passed_listener(app::options& opts) {
  const auto listener = app::take_passed_listener();
  if (!listener) return listener.error();
  if (!*listener) return {};
  const auto& [descriptor, address, port] = **listener;
  const auto why = app::disagreement(**listener, opts.host_given ? std::optional(opts.host) : std::nullopt,
                                     opts.port_given ? std::optional(opts.port) : std::nullopt);
  if (why) return engine::error(engine::errc::invalid_request, *why, "port");
  opts.listener = descriptor;
  opts.host = address;
  opts.port = port;
  return {};
}

app::exit_code serve(const app::options& opts, app::process_guard& guard,
                     const std::vector<std::string>& args) {
  const bool host = opts.backend == app::backend_kind::host;
  app::log_narrator narrator(app::make_narration_config(opts.format, opts.log_level, opts.journal_stream),
                             {opts.worker_id, app::model_name_of(opts),
                              host ? std::int64_t{-1} : static_cast<std::int64_t>(opts.gpu.index)});
  try {
    return app::run_worker(opts, narrator, guard, [&args]() -> engine::result<app::options> {
      auto again = read_options(args);
      if (!again) return again.error();
      return std::move(again->opts);
    });
  } catch (const std::exception& e) {
    narrator.narrate(engine::severity::critical, "error", std::string("Unexpected failure: ") + e.what(),
                     {{"code", engine::code_name(engine::errc::internal)}});
    return app::exit_code::failure;
  }
}

app::exit_code run(const std::vector<std::string>& args, app::process_guard& guard) {
  const auto refuse = [](const engine::error& why) {
    std::fputs(app::complaint("worker-orcd", why.message).c_str(), stderr);
    return app::exit_code::usage;
  };
  auto parsed = read_options(args);
  if (!parsed) return refuse(parsed.error());
  if (parsed->what == app::command::kind::print) {
    std::fputs(parsed->text.c_str(), stdout);
    return std::fflush(stdout) == 0 ? app::exit_code::ok : app::exit_code::failure;
  }
  if (const auto usable = use_passed_listener(parsed->opts); !usable) return refuse(usable.error());
  return serve(parsed->opts, guard, args);
}

/// The CUDA driver loads a kernel when it is first launched, unless it is told otherwise before it begins: a
/// request that needs one that none before has needed would wait for it, and take VRAM after READY. What an
/// operator has set holds.
void load_all_kernels_at_start() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);  // no other thread runs yet
}

/// Without an allocation: there may be no memory left for one.
int fail(std::string_view what) noexcept {
  for (const std::string_view part : {std::string_view("worker-orcd: "), what, std::string_view("\n")}) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, part.data(), part.size());
  }
  return static_cast<int>(app::exit_code::failure);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    load_all_kernels_at_start();
    app::open_standard_streams();
    app::make_room_for_stacks();
    app::process_guard guard;
    app::return_freed_memory();
    app::end_in_order_without_memory("worker-orcd");
    app::prepare_cryptography();
    const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
    return static_cast<int>(run(args, guard));
  } catch (const std::bad_alloc&) {
    return fail("out of memory");
  } catch (const std::exception& e) {
    return fail(app::one_line(e.what()));
  }
}
